"""What stands at the other end of a sink that is tested."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Protocol

from ...event import Event
from ..arrival import Arrival, read
from ..subscriber import Answer, Received, Subscriber


class FarSide(Protocol):
    """Where the sink's events end up. It is entered before the sink starts, and left after it stopped."""

    def __enter__(self) -> FarSide: ...

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None: ...

    def events(self) -> list[Event]:
        """What has come, in any order; attribute values may be text."""


class RemoteFarSide(FarSide, Protocol):
    """One that can fail. Each of these holds until another is called."""

    def take(self) -> None:
        """Takes what comes (so it begins)."""

    def refuse(self) -> None:
        """Answers that what comes will never be taken."""

    def fail(self) -> None:
        """Answers that what comes may be taken later."""

    def hang(self) -> None:
        """Answers nothing."""

    def leave(self) -> None:
        """Is not there: no connection can be made. Called before the first event; `take` brings it back."""


class HttpFarSide:
    """A CloudEvents subscriber by HTTP, at `url`."""

    def __init__(self) -> None:
        self._subscriber: Subscriber | None = None
        self._arrivals: list[Arrival] = []
        self._answer: Answer = 202
        self._go_on = threading.Event()
        self._go_on.set()
        with Subscriber() as found:
            self._port, self.url = found.port, found.url

    def __enter__(self) -> HttpFarSide:
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
