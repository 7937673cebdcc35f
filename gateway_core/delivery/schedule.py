"""Decides which delivery is attempted next, and when: limits, `Retry-After`, shortages, outages of the subscriber.

After `AWAY_AFTER` attempts in a row without any answer (refused, broken or silent connections; not 4xx or 5xx), the
subscriber counts as down. From then on there is one attempt at a time, each with the next event in turn. The waits
between them follow the policy, up to `MOST_WAIT_S`. Once two different events got no answer, a failed attempt stands
for all: it counts as a failed attempt of every event that was held, with its own wait over, when it began. So events
keep the number of tries and the waits of the policy, and events that waited together are given up together. Any answer,
even a refusal, ends the outage; an event whose own wait is not over then keeps waiting.
"""

from __future__ import annotations

from collections.abc import Callable

from ..contract import backoff
from ..contract.clock import Clock, Timer
from ..contract.config_model import DeliveryConfig
from ..contract.interfaces import Outcome
from .deliveries import Delivery, DeliveryQueue

AWAY_AFTER = 5
MOST_WAIT_S = 5.0
SHORT_S = (0.05, 1.0)
"""The first and the longest wait, in seconds, before an attempt that a shortage on this machine prevented."""


class Window:
    """Starts fully open at `most`. A retriable failure halves it, at most once a `pause_s` so that one burst of
    failures counts once; every success opens it by one. It never closes below a sixteenth: the retries of an event must
    not wait forever behind others (Knative data plane contract: brokers MUST implement congestion control)."""

    __slots__ = ("_halved", "_least", "_most", "_pause_s", "size")

    def __init__(self, most: int, pause_s: float = 0.1) -> None:
        self._most = most
        self._least = max(1, most // 16)
        self._pause_s = pause_s
        self._halved = float("-inf")
        self.size = most

    def succeeded(self) -> None:
        if self.size < self._most:
            self.size += 1

    def failed(self, now: float) -> None:
        if now - self._halved >= self._pause_s:
            self._halved = now
            self.size = max(self._least, self.size // 2)


class Rate:
    """A token bucket: `per_s` attempts a second, with a burst of at most a tenth of a second's worth (at least one)."""

    __slots__ = ("_burst", "_clock", "_filled", "_per_s", "_tokens")

    def __init__(self, per_s: float, clock: Clock) -> None:
        self._per_s = per_s
        self._burst = max(1.0, per_s / 10)
        self._tokens = self._burst
        self._clock = clock
        self._filled = clock.monotonic()

    def take(self) -> float:
        """Takes one token and returns 0, or returns the seconds until there is one."""
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._per_s)
        self._filled = now
        # the slack absorbs float rounding: without it a timer could fire slightly early, again and again
        if self._tokens >= 1.0 - 1e-9:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._per_s


class Schedule:
    """The attempts of one subscription, whose deliveries are in `queue`. `wake()` is called when a wait is over.
    `later(delivery, wait_s)` takes a delivery that is not due after all, and brings it back."""

    __slots__ = (
        "_alone", "_clock", "_later", "_not_before", "_policy", "_queue", "_rate", "_short_s", "_timer", "_timer_at",
        "_wake", "_window", "asked_until", "outage", "short",
    )  # fmt: skip

    def __init__(
        self,
        policy: DeliveryConfig,
        clock: Clock,
        queue: DeliveryQueue,
        draw: Callable[[], float],
        wake: Callable[[], None],
        later: Callable[[Delivery, float], None],
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._queue = queue
        self._wake = wake
        self._later = later
        self._window = Window(policy.max_in_flight)
        self._rate = Rate(policy.rate_per_s, clock) if policy.rate_per_s else None
        self.outage = Outage(policy, clock, queue, draw)
        self._not_before = 0.0
        self.asked_until = 0.0
        """Until when the subscriber asked for a pause (`Retry-After`), by the clock that never goes backwards."""
        self._alone = False  # one attempt at a time
        self._short_s = 0.0
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self.short = False
        """This machine is short of something that an attempt needs. One attempt at a time tests whether it still is."""

    def next(self, in_flight: int) -> Delivery | None:
        """The delivery to attempt now; None if another attempt or a wait must end first. Some must be due."""
        if in_flight >= (1 if self._alone else self._window.size):
            return None
        if self._not_before:
            wait = self._not_before - self._clock.monotonic()
            if wait > 0:
                self._wake_in(wait)
                return None
            self._not_before = 0.0
        if self._queue.due[0].due_s and not self.outage.away and not self._put_off():
            return None
        if self._rate is not None and (wait := self._rate.take()) > 0:
            self._wake_in(wait)
            return None
        if not self.outage.away:
            return self._queue.due.popleft()
        found = self.outage.take()
        if isinstance(found, float):
            self._wake_in(found)
            return None
        return found

    def _put_off(self) -> bool:
        """Puts off what has its last failed attempt from an outage and must still wait. Is anything due then?"""
        due = self._queue.due
        while due and due[0].due_s and (wait := due[0].due_s - self._clock.monotonic()) > 0:
            self._later(due.popleft(), wait)
        return bool(due)

    def _wake_in(self, wait_s: float) -> None:
        at = self._clock.monotonic() + wait_s
        if self._timer is not None:
            if at >= self._timer_at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._clock.call_later(wait_s, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._wake()

    def stop(self) -> None:
        """Wakes no more."""
        if self._timer is not None:
            self._timer.cancel()

    def answered(self) -> None:
        """The subscriber answered, whatever the answer was."""
        if self.outage.count:
            self.outage.end()
            self._alone = self.short

    def succeeded(self) -> None:
        """An attempt succeeded."""
        if self.outage.count:
            self.answered()
        self._window.succeeded()

    def failed(self, delivery: Delivery, outcome: Outcome, answered: bool) -> float:
        """An attempt failed, though the subscriber may have answered. Returns how long it asked us to wait, up to the
        configured maximum (0 if it did not). No attempt starts before that."""
        now = self._clock.monotonic()
        if answered:
            self.answered()
        elif outcome.retry and (wait := self.outage.unanswered(delivery, outcome)) is not None:
            self._alone = True
            self._not_before = max(self._not_before, now + wait)
        if not outcome.retry:
            return 0.0
        self._window.failed(now)
        if outcome.retry_after_s is None:
            return 0.0
        asked = min(outcome.retry_after_s, self._policy.retry_after_max_s)
        self.asked_until = max(self.asked_until, now + asked)
        self._not_before = max(self._not_before, now + asked)
        return asked

    def held_up(self) -> None:
        """An attempt could not be made because this machine is short of something. The next one waits, twice as long
        each time (`SHORT_S`); concurrent attempts that meet the same shortage count once."""
        now = self._clock.monotonic()
        self.short = self._alone = True
        if now >= self._not_before:
            first, most = SHORT_S
            self._short_s = min(most, self._short_s * 2 or first)
            self._not_before = now + self._short_s

    def plenty(self) -> None:
        """An attempt was made: the shortage is over."""
        self.short = False
        self._short_s = 0.0
        self._alone = self.outage.away


class Outage:
    """For one subscription. `count` is the number of attempts in a row without an answer."""

    __slots__ = (
        "_began_ns", "_clock", "_confirmed", "_draw", "_first", "_policy", "_probe", "_queue", "_rounds", "_sharing",
        "away", "count",
    )  # fmt: skip

    def __init__(self, policy: DeliveryConfig, clock: Clock, queue: DeliveryQueue, draw: Callable[[], float]) -> None:
        self._policy = policy
        self._clock = clock
        self._queue = queue
        self._draw = draw
        self.away = False
        self.count = 0
        self._rounds = 0
        self._first: Delivery | None = None
        self._confirmed = False  # by two different events
        self._probe: Delivery | None = None
        self._began_ns = 0
        self._sharing: set[Delivery] = set()

    def end(self) -> None:
        """The subscriber answered."""
        self.count = self._rounds = 0
        self.away = self._confirmed = False
        self._first = self._probe = None
        self._sharing = set()

    def unanswered(self, delivery: Delivery, outcome: Outcome) -> float | None:
        """An attempt got no answer. Returns how long to wait, in seconds, if the subscriber is down now."""
        self.count += 1
        if self._first is None:
            self._first = delivery
        elif delivery is not self._first:
            self._confirmed = True
        if not self.away:
            if self.count < AWAY_AFTER:
                return None
            self.away = True
        elif delivery is not self._probe:
            return None  # it began before the outage
        self._rounds += 1
        wait = backoff.wait_s(self._policy, self._rounds, self._draw())
        shared, self._sharing, self._probe = self._sharing, set(), None
        if self._confirmed and shared:
            self._share(shared, outcome)
        return min(wait, MOST_WAIT_S)

    def take(self) -> Delivery | float:
        """The event for the next attempt, or the seconds until one is due."""
        now = self._clock.monotonic()
        found = self._queue.take_due(now)
        if found is None:
            return max(0.001, self._queue.next_due_s() - now)
        self._probe = found
        self._began_ns = self._clock.now_ns()
        self._sharing = {d for d in self._queue.startable() if d.due_s <= now}
        return found

    def _share(self, shared: set[Delivery], outcome: Outcome) -> None:
        now, queue = self._clock.monotonic(), self._queue
        for delivery in self._queue.startable():
            if delivery in shared and not queue.is_spent(delivery):  # one behind another may have had all
                delivery.attempts += 1
                delivery.first_ns = delivery.first_ns or self._began_ns
                delivery.outcome = outcome
                elapsed = delivery.failed(now, queue.limit_s)
                delivery.due_s = now + backoff.wait_s(self._policy, delivery.attempts, self._draw(), elapsed)
        self._queue.sort_out()
