"""The remote end of a sink under test."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Protocol

from gateway_core.contract.event import Event

from ..arrival import Arrival, read
from ..link import Link
from ..subscriber import Answer, Received, Subscriber


class Remote(Protocol):
    """Where the sink's events end up. A context manager around the life of the sink."""

    def __enter__(self) -> Remote: ...

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None: ...

    def events(self) -> list[Event]:
        """The received events, in any order; attribute values may be text."""


class ReturningRemote(Remote, Protocol):
    """One that goes away and comes back. The suites call `leave` and `take` in a thread, so both may block."""

    def leave(self) -> None:
        """Is down: no connection is left, and none is possible."""

    def take(self) -> None:
        """Accepts events. The initial behaviour; after `leave` it is back."""


class ControllableRemote(ReturningRemote, Protocol):
    """One that can fail. Each method sets a behaviour, until another one is called."""

    def refuse(self) -> None:
        """Refuses events permanently."""

    def fail(self) -> None:
        """Refuses events temporarily."""

    def hang(self) -> None:
        """Never responds."""


class HttpRemote:
    """A CloudEvents subscriber over HTTP, at `url`."""

    def __init__(self) -> None:
        self._subscriber = Subscriber(decide=self._decide)
        self._link = Link("127.0.0.1", self._subscriber.port)
        self._link.restore()
        self._arrivals: list[Arrival] = []
        self._answer: Answer = 202
        self._go_on = threading.Event()
        self._go_on.set()
        self.url = f"http://127.0.0.1:{self._link.port}/"

    def __enter__(self) -> HttpRemote:
        self._subscriber.__enter__()
        self.take()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._go_on.set()
        self._link.__exit__(kind, e, tb)
        self._subscriber.close()

    def events(self) -> list[Event]:
        return [Event(dict(a.attributes), a.data) for a in list(self._arrivals)]

    def take(self) -> None:
        self._link.restore()
        self._become(202)

    def refuse(self) -> None:
        self._become(400)

    def fail(self) -> None:
        self._become(503)

    def hang(self) -> None:
        self._become(None)
        self._go_on.clear()

    def leave(self) -> None:
        self._link.cut()

    def _become(self, answer: Answer) -> None:
        self._answer = answer
        self._go_on.set()

    def _decide(self, request: Received) -> Answer:
        answer = self._answer
        if answer == 202:
            self._arrivals.append(read(request))
        self._go_on.wait(60)
        return answer
