"""What metrics need and nobody else counts: how long things take, and how far dead letters came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any

from .clock import Clock
from .delivery.deadletter import STAGES
from .event import Event
from .histogram import Histogram
from .interfaces import Accepted, Observer, Outcome

Accept = Callable[[Sequence[Event], Accepted], None]


def with_meter(observers: tuple[Observer, ...], meter: Meter | None) -> tuple[Observer, ...]:
    """All who are told."""
    return observers if meter is None else (*observers, meter)


class Meter(Observer):
    """Told of what happens to the events of one broker, trigger or bridge. Made only where metrics are on."""

    def __init__(self, clock: Clock) -> None:
        self.accept = Histogram()
        self.attempt = Histogram()
        self.delivery = Histogram()
        self.not_stored = 0
        self.letters = dict.fromkeys(STAGES, 0)
        self._now_ns = clock.now_ns

    def around(self, accept: Accept) -> Accept:
        """The same `Intake.accept`, timed from the call to its `done`. Events that came together are one."""
        observe = self.accept.observe

        def answered(began: float, count: int, done: Accepted, error: BaseException | None) -> None:
            if error is None:
                observe(monotonic() - began)
            else:
                self.not_stored += count
            done(error)

        def timed(events: Sequence[Event], done: Accepted) -> None:
            # a partial costs less than a closure, and this is done for every event
            accept(events, partial(answered, monotonic(), len(events), done))

        return timed

    def attempted(self, trigger: str, event: Event, outcome: Outcome, seconds: float) -> None:
        """See `Observer`."""
        self.attempt.observe(seconds)
        if outcome.delivered and event.received_ns:
            # the machine's clock may have been set back since
            self.delivery.observe(max(0.0, (self._now_ns() - event.received_ns) / 1e9))

    def dead_lettered(self, trigger: str, event: Event) -> None:
        """See `Observer`."""
        stage = event.attributes["tidegatestage"]
        self.letters[stage] = self.letters.get(stage, 0) + 1

    def of_broker(self) -> dict[str, Any]:
        """For the status of a broker."""
        return {"letters": dict(self.letters), "not_stored": self.not_stored, "accept": self.accept.status()}

    def of_deliveries(self) -> dict[str, Any]:
        """For the status of a trigger or bridge."""
        return {
            "letters": dict(self.letters),
            "attempt": self.attempt.status(),
            "delivery": self.delivery.status(),
        }
