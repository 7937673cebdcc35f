"""The errors that modules raise for each other, grouped by what the caller does next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus


class TidegateError(Exception):
    """The root of all errors that Tidegate raises on purpose."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong in a config: where (file, line counted from 1, path of keys), what, and the remedy."""

    message: str
    path: str = ""
    file: str = ""
    line: int = 0
    remedy: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        at = f"{self.path}: " if self.path else ""
        return f"{where}{at}{self.message}" + (f"\n    remedy: {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of trying an `end` of a gateway, named at `path` in the config: it is `ok`, or the `reason` why not."""

    path: str
    end: str
    ok: bool
    reason: str = ""


class ConfigError(TidegateError):
    """The config can't be used. Holds all faults found, not just the first. `secret_files` are the files of secrets
    that it names; None if it was not read that far."""

    def __init__(self, faults: list[Fault], secret_files: Sequence[str] | None = None) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults
        self.secret_files = secret_files


class StartError(TidegateError):
    """A component can't start (a port is taken, a file can't be written, a library is missing); the text names it."""


class MissingExtra(StartError):
    """A component's client library isn't installed; the text names the extra to install."""


class Refused(TidegateError):
    """An input can't be accepted, now or later. Becomes an RFC 9457 problem with this status.

    `title` is the kind of fault in a few words, `detail` what is wrong with this input, `rule` the specification and
    section that says so, `attribute` the CloudEvents attribute at fault if there is one. `trace` is the trace
    context that came with the input, if the gateway traces (`gateway_core.contract.tracing`). `headers` are fields that
    the answer also needs (`WWW-Authenticate`, `Retry-After`).
    """

    trace: str | None = None
    headers: Sequence[tuple[bytes, bytes]] = ()

    def __init__(self, detail: str, *, status: int = 400, title: str = "", rule: str = "", attribute: str = "") -> None:
        self.detail = detail if len(detail) <= 1000 else f"{detail[:1000]}…"
        super().__init__(self.detail)
        self.status = status
        self.title = title or HTTPStatus(status).phrase
        self.rule = rule
        self.attribute = attribute[:100]


class NotDelivered(TidegateError):
    """A bridge has no dead letter, and its sink refused the event for good, or the event can't be written for it:
    sending it again won't help. `code` is the sink's status, None if it gave none."""

    status = 422

    def __init__(self, detail: str, code: int | None = None) -> None:
        super().__init__(detail)
        self.code = code


class Overloaded(TidegateError):
    """The gateway can't accept the event now. The sender should try again (503 with Retry-After)."""

    def __init__(self, detail: str, retry_after_s: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class StorageError(TidegateError):
    """The channel could not store an event (disk full, I/O error). The sender should try again (503, Retry-After)."""

    def __init__(self, detail: str, retry_after_s: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s
