"""Durations for metrics: histograms, and the meters that fill them at a negligible cost per event."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from ..contract.clock import Clock
from ..contract.event import Event
from ..contract.interfaces import Accepted, Outcome, Send
from ..contract.status import BOUNDS_S, BUSY_PER_S, ONE_OF, Durations
from .steps import Accept

_EMPTY = Durations([0] * (len(BOUNDS_S) + 1))


class Histogram:
    """How many durations fell into each bucket, and their sum in seconds. It has no buckets of its own until then."""

    __slots__ = ("buckets", "sum_s")

    def __init__(self) -> None:
        self.buckets = _EMPTY.buckets
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Counts one. It must not be negative."""
        if self.buckets is _EMPTY.buckets:
            self.buckets = [*_EMPTY.buckets]
        self.buckets[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def status(self) -> Durations:
        """The current numbers."""
        return _EMPTY if self.buckets is _EMPTY.buckets else Durations(list(self.buckets), round(self.sum_s, 6))


class Pace:
    """Decides which event is timed next."""

    __slots__ = ("_before", "_step")

    def __init__(self) -> None:
        self._before = 0.0
        self._step = 1

    def step(self, now: float) -> int:
        """An event is being timed. Returns n: the n-th from here is the next."""
        busy = (now - self._before) * BUSY_PER_S < self._step
        self._before = now
        self._step = ONE_OF if busy else 1
        return self._step


class Meter:
    """The durations of one broker, trigger or bridge. Created only if metrics are on.

    An event that is not timed costs one more call. A timed one needs a partial, which is cheaper than a closure.
    """

    def __init__(self, clock: Clock) -> None:
        self.accept = Histogram()
        self.attempt = Histogram()
        self.delivery = Histogram()
        self._now_ns = clock.now_ns

    def accepting(self, accept: Accept) -> Accept:
        """The same `Intake.accept`, timed from the call to its `done`. Events that arrived together count once."""
        pace, left = Pace(), 1

        def timed(events: Sequence[Event], done: Accepted) -> None:
            nonlocal left
            left -= 1
            if left:
                accept(events, done)
                return
            began = monotonic()
            left = pace.step(began)
            accept(events, partial(self._accepted, began, done))

        return timed

    def _accepted(self, began: float, done: Accepted, error: BaseException | None) -> None:
        if error is None:
            self.accept.observe(monotonic() - began)
        done(error)

    def sending(self, send: Send) -> Send:
        """The same `Sink.send`, timed from the call to the outcome, and from the event's arrival to its delivery."""
        pace, left = Pace(), 1

        def timed(event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
            nonlocal left
            left -= 1
            if left:
                send(event, timeout_s, done)
                return
            began = monotonic()
            left = pace.step(began)
            send(event, timeout_s, partial(self._answered, event, began, done))

        return timed

    def _answered(self, event: Event, began: float, done: Callable[[Outcome], None], outcome: Outcome) -> None:
        if outcome.__class__ is Outcome and not outcome.local:  # a sink may report anything
            self.attempt.observe(monotonic() - began)
        if outcome.__class__ is Outcome and outcome.delivered and event.received_ns:
            # the machine's clock may have been set back since
            self.delivery.observe(max(0.0, (self._now_ns() - event.received_ns) / 1e9))
        done(outcome)
