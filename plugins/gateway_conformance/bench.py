"""What a check works with: the broker that is checked, a subscriber behind it, events of its own."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

import httpx

from gateway_core.testing.arrival import Arrival
from gateway_core.testing.vectors import Vector

from .sink import Script, Sink

Level = Literal["M", "S", "m"]
"""RFC 2119: must, should, may."""


class Failed(Exception):
    """A requirement is not met: `seen` has a line for each bad case."""

    def __init__(self, *seen: str) -> None:
        super().__init__("; ".join(seen))
        self.seen = seen


class NotOffered(Exception):
    """The requirement is about something that this broker need not have, and does not have."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `id` is the requirement's; `sink` says that it needs events delivered; `alone` that it runs when the
    others are done, because they would disturb each other."""

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
    """The bad cases of one check, all of them: `with Cases() as cases:` raises `Failed` at its end where there are any.

    A case that fails by an exception goes into `with cases.case():`, one that is looked at into `cases.expect`."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def expect(self, condition: bool, seen: str) -> None:
        """Notes what was seen where the condition does not hold."""
        if not condition:
            self.seen.append(seen)

    @contextmanager
    def case(self) -> Iterator[None]:
        """Notes what fails within."""
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
    """`client` speaks with the broker at `url`. Events get ids and the source of this run, `source`."""

    def __init__(
        self, url: str, client: httpx.Client, sink: Sink | None, run: str, timeout_s: float, settle_s: float
    ) -> None:
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
        """One request; a body in pieces goes out in chunks. Raises `Failed` where there is no answer."""
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        try:
            return self.client.request(method, url or self.url, headers=fields, content=body)
        except httpx.HTTPError as e:
            raise Failed(f"{method} had no answer: {type(e).__name__}: {e}") from e

    def post(self, headers: Mapping[str, str], body: bytes | Iterable[bytes] = b"") -> httpx.Response:
        return self.ask("POST", headers, body)

    def accepted(
        self, headers: Mapping[str, str], body: bytes | Callable[[], Iterable[bytes]] = b"", what: str = "the event"
    ) -> None:
        """Posts, and expects a 2xx; tries again on 429 and 503, as senders should. A body in pieces is made by a call
        for each try."""
        for _ in range(5):
            answer = self.post(headers, body() if callable(body) else body)
            if answer.status_code not in (429, 503):
                break
            time.sleep(0.5)
        expect(answer.is_success, f"{what} was answered {_said(answer)}")

    def refused(self, headers: Mapping[str, str], body: bytes, what: str) -> httpx.Response:
        """Posts what is no event, and expects 400."""
        answer = self.post(headers, body)
        expect(answer.status_code == 400, f"{what} was answered {_said(answer)}, not 400")
        return answer

    def vector(self, vector: Vector, mode: str) -> Vector:
        """Sends an event of the vectors under a new id; returns it as it was sent."""
        sent = vector.with_id(self.id())
        message = sent.binary() if mode == "binary" else sent.structured()
        headers = {name.decode(): value.decode() for name, value in message.headers}
        self.accepted(headers, message.body or b"", f"{vector.name} ({vector.version}, {mode})")
        return sent

    # -- the subscriber ---------------------------------------------------------------------------------------------

    @property
    def sink(self) -> Sink:
        assert self._sink is not None, "only checks with sink=True ask for it"
        return self._sink

    def deliver(self, *answers: Script, then: Script = 202, **attributes: str) -> str:
        """Sends an event whose deliveries are answered with these answers, then with `then`; returns its id."""
        id = self.id()
        self.sink.script(id, answers, then)
        self.accepted(self.headers(id, **attributes) | {"content-type": "text/plain"}, b"conformance")
        return id

    def arrivals(self, id: str, count: int = 1, what: str = "", until: float | None = None) -> list[Arrival]:
        """The deliveries of an event, once there are `count`. Raises `Failed` where there are not within the time, or
        by `until` on the monotonic clock."""
        left = self.timeout_s if until is None else max(0.0, until - time.monotonic())
        found = self.sink.wait(id, count, left)
        expect(
            len(found) >= count, f"{what or 'the event'}: {len(found)} of {count} deliveries in {self.timeout_s:g} s"
        )
        return found

    def until(self) -> float:
        """When the time is up for all arrivals of a check together, on the monotonic clock."""
        return time.monotonic() + self.timeout_s

    def settle(self) -> None:
        """Waits as long as something that must not happen is given time to happen."""
        time.sleep(self.settle_s)


def _said(answer: httpx.Response) -> str:
    text = " ".join(answer.text.split())[:120]
    return f"{answer.status_code}{' ' + text if text else ''}"
