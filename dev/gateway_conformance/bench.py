"""The tools of a check: the broker under test, a subscriber behind it, and events."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import httpx
from gateway_testing.arrival import Arrival
from gateway_testing.vectors import Vector

from .sink import Script, Sink

if TYPE_CHECKING:
    from .trigger_config import Triggers

Level = Literal["M", "S", "m"]
"""RFC 2119: must, should, may."""


class Failed(Exception):
    """A requirement is not met. `seen` has one line per failed case."""

    def __init__(self, *seen: str) -> None:
        super().__init__("; ".join(seen))
        self.seen = seen


class NotSupported(Exception):
    """The requirement is about an optional feature that this broker does not have."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `id` is that of the requirement. With `sink` it needs deliveries. With `alone` it runs after the
    others, because they would interfere."""

    id: str
    level: Level
    title: str
    run: Callable[[Bench], None]
    sink: bool = False
    alone: bool = False


def expect(condition: bool, seen: str) -> None:
    """Raises `Failed` with what was seen."""
    if not condition:
        raise Failed(seen)


class Cases:
    """Collects all failed cases of one check: `with Cases() as cases:` raises `Failed` at its end if there are any. Use
    `with cases.case():` for code that raises `Failed`, and `cases.expect` for conditions."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def expect(self, condition: bool, seen: str) -> None:
        """Records `seen` if the condition does not hold."""
        if not condition:
            self.seen.append(seen)

    @contextmanager
    def case(self) -> Iterator[None]:
        """Records a failure inside the block."""
        try:
            yield
        except Failed as e:
            self.seen += e.seen

    def __enter__(self) -> Cases:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        if self.seen and kind is None:
            raise Failed(*self.seen)


class Bench:
    """`client` talks to the broker at `url`. Events get ids and the source of this run, `source`."""

    def __init__(
        self,
        url: str,
        client: httpx.Client,
        sink: Sink | None,
        run: str,
        timeout_s: float,
        settle_s: float,
        triggers: Triggers | None = None,
    ) -> None:
        self.triggers = triggers
        self.url = url
        self.client = client
        self.source = f"/tidegate/conformance/{run}"
        self.timeout_s = timeout_s
        self.settle_s = settle_s
        self._sink = sink
        self._run = run
        self._count = itertools.count(1)

    # -- the ingress ------------------------------------------------------------------------------------------------

    def id(self) -> str:
        """A new id, unique over runs."""
        return f"{self._run}-{next(self._count)}"

    def headers(self, id: str, **attributes: str) -> dict[str, str]:
        """A 1.0 event in binary mode."""
        base = {"specversion": "1.0", "id": id, "source": self.source, "type": "dev.tidegate.conformance"}
        return {f"ce-{name}": value for name, value in {**base, **attributes}.items()}

    def ask(
        self, method: str, headers: Mapping[str, str], body: bytes | Iterable[bytes] = b"", url: str = ""
    ) -> httpx.Response:
        """Sends one request; a body in pieces is sent chunked. Raises `Failed` if there is no response."""
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        try:
            return self.client.request(method, url or self.url, headers=fields, content=body)
        except httpx.HTTPError as e:
            raise Failed(f"{method} had no response: {type(e).__name__}: {e}") from e

    def post(self, headers: Mapping[str, str], body: bytes | Iterable[bytes] = b"") -> httpx.Response:
        return self.ask("POST", headers, body)

    def accepted(
        self, headers: Mapping[str, str], body: bytes | Callable[[], Iterable[bytes]] = b"", what: str = "the event"
    ) -> None:
        """Posts and expects a 2xx; retries on 429 and 503, as senders should. A body in pieces is a callable, which is
        called for each attempt."""
        for _ in range(5):
            answer = self.post(headers, body() if callable(body) else body)
            if answer.status_code not in (429, 503):
                break
            time.sleep(0.5)
        expect(answer.is_success, f"{what} was answered {_said(answer)}")

    def refused(self, headers: Mapping[str, str], body: bytes, what: str) -> httpx.Response:
        """Posts something that is not an event and expects 400."""
        answer = self.post(headers, body)
        expect(answer.status_code == 400, f"{what} was answered {_said(answer)}, not 400")
        return answer

    def vector(self, vector: Vector, mode: str) -> Vector:
        """Sends an event of the test vectors with a new id; returns the sent event."""
        sent = vector.with_id(self.id())
        message = sent.binary() if mode == "binary" else sent.structured()
        headers = {name.decode(): value.decode() for name, value in message.headers}
        self.accepted(headers, message.body or b"", f"{vector.name} ({vector.version}, {mode})")
        return sent

    # -- the subscriber ---------------------------------------------------------------------------------------------

    @property
    def sink(self) -> Sink:
        assert self._sink is not None, "only checks with sink=True may use it"
        return self._sink

    def deliver(
        self,
        *answers: Script,
        then: Script = 202,
        at: str = "",
        more: Mapping[str, str] | None = None,
        **attributes: str,
    ) -> str:
        """Sends an event whose deliveries get these answers, then `then`; returns its id. `at` is the path of another
        trigger than the one that gets everything, `more` are attributes as well."""
        id = self.id()
        self.sink.script(id, answers, then, at)
        self.accepted(self.headers(id, **attributes, **(more or {})) | {"content-type": "text/plain"}, b"conformance")
        return id

    def arrivals(self, id: str, count: int = 1, what: str = "", until: float | None = None) -> list[Arrival]:
        """Waits for `count` deliveries of an event and returns them. Raises `Failed` after the timeout, or at `until`
        on the monotonic clock."""
        left = self.timeout_s if until is None else max(0.0, until - time.monotonic())
        found = self.sink.wait(id, count, left)
        expect(
            len(found) >= count, f"{what or 'the event'}: {len(found)} of {count} deliveries in {self.timeout_s:g} s"
        )
        return found

    def until(self) -> float:
        """The deadline for all deliveries of a check together, on the monotonic clock."""
        return time.monotonic() + self.timeout_s

    def settle(self) -> None:
        """Waits, to give something that must not happen the time to happen."""
        time.sleep(self.settle_s)


def _said(answer: httpx.Response) -> str:
    text = " ".join(answer.text.split())[:120]
    return f"{answer.status_code}{' ' + text if text else ''}"
