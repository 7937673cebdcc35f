"""The remote end of a sink under test."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Protocol

from gateway_core.contract.event import Event

from ..arrival import Arrival, read
from ..subscriber import Answer, Received, Subscriber


class Remote(Protocol):
    """Where the sink's events end up. A context manager around the life of the sink."""

    def __enter__(self) -> Remote: ...

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None: ...

    def events(self) -> list[Event]:
        """The received events, in any order; attribute values may be text."""


class ControllableRemote(Remote, Protocol):
    """One that can fail. Each method sets a behaviour, until another one is called."""

    def take(self) -> None:
        """Accepts events. The initial behaviour."""

    def refuse(self) -> None:
        """Refuses events permanently."""

    def fail(self) -> None:
        """Refuses events temporarily."""

    def hang(self) -> None:
        """Never responds."""

    def leave(self) -> None:
        """Is down: no connection is possible. Called before the first event; `take` brings it back."""


class HttpRemote:
    """A CloudEvents subscriber over HTTP, at `url`."""

    def __init__(self) -> None:
        self._subscriber: Subscriber | None = None
        self._arrivals: list[Arrival] = []
        self._answer: Answer = 202
        self._go_on = threading.Event()
        self._go_on.set()
        with Subscriber() as found:
            self._port, self.url = found.port, found.url

    def __enter__(self) -> HttpRemote:
        self.take()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._go_on.set()
        self.leave()

    def events(self) -> list[Event]:
        return [Event(dict(a.attributes), a.data) for a in list(self._arrivals)]

    def take(self) -> None:
        self._become(202)

    def refuse(self) -> None:
        self._become(400)

    def fail(self) -> None:
        self._become(503)

    def hang(self) -> None:
        self._become(None)
        self._go_on.clear()

    def leave(self) -> None:
        if self._subscriber is not None:
            self._subscriber.close()
            self._subscriber = None

    def _become(self, answer: Answer) -> None:
        self._answer = answer
        self._go_on.set()
        if self._subscriber is None:
            self._subscriber = Subscriber(decide=self._decide, port=self._port).__enter__()

    def _decide(self, request: Received) -> Answer:
        answer = self._answer
        if answer == 202:
            self._arrivals.append(read(request))
        self._go_on.wait(60)
        return answer
