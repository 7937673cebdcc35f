"""Outages of a subscriber: while it does not answer at all, one attempt at a time tests for all events whether it is
back.

After `AWAY_AFTER` attempts in a row without any answer (refused, broken or silent connections; not 4xx or 5xx), the
subscriber counts as down. From then on there is one attempt at a time, each with the next event in turn. The waits
between them follow the policy, up to `MOST_WAIT_S`. Once two different events got no answer, a failed attempt stands
for all: it counts as a failed attempt of every event that was held, with its own wait over, when it began. So events
keep the number of tries and the waits of the policy, and events that waited together are given up together. Any answer,
even a refusal, ends the outage.
"""

from __future__ import annotations

from collections.abc import Callable

from ..config.model import DeliveryConfig
from ..contract.clock import Clock
from ..contract.interfaces import Outcome
from . import backoff
from .attempt import Delivery
from .limits import Limits
from .ordering import DeliveryQueue

AWAY_AFTER = 5
MOST_WAIT_S = 5.0


class Outage:
    """For one subscription. `count` is the number of attempts in a row without an answer."""

    __slots__ = (
        "_began_ns",
        "_clock",
        "_confirmed",
        "_draw",
        "_first",
        "_limits",
        "_policy",
        "_probe",
        "_queue",
        "_rounds",
        "_sharing",
        "away",
        "count",
    )  # fmt: skip

    def __init__(
        self, policy: DeliveryConfig, clock: Clock, limits: Limits, queue: DeliveryQueue, draw: Callable[[], float]
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._limits = limits
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

    def answered(self) -> None:
        """The subscriber answered, whatever the answer was."""
        if self.count:
            self.count = self._rounds = 0
            self.away = self._confirmed = False
            self._first = self._probe = None
            self._sharing = set()
            self._limits.all_at_once()

    def unanswered(self, delivery: Delivery, outcome: Outcome, now_ns: int) -> None:
        """An attempt got no answer."""
        self.count += 1
        if self._first is None:
            self._first = delivery
        elif delivery is not self._first:
            self._confirmed = True
        if not self.away:
            if self.count < AWAY_AFTER:
                return
            self.away = True
        elif delivery is not self._probe:
            return  # it began before the outage
        self._rounds += 1
        wait = backoff.wait_s(self._policy, self._rounds, self._draw())
        self._limits.one_at_a_time(min(wait, MOST_WAIT_S))
        shared, self._sharing, self._probe = self._sharing, set(), None
        if self._confirmed and shared:
            self._share(shared, outcome, now_ns)

    def take(self) -> Delivery | float:
        """The event for the next attempt, or the seconds until one is due."""
        now_ns = self._clock.now_ns()
        found = self._queue.take_due(now_ns)
        if found is None:
            return max(0.001, (self._queue.next_due_ns() - now_ns) / 1e9)
        self._probe = found
        self._began_ns = now_ns
        self._sharing = {d for d in self._queue.startable() if d.due_ns <= now_ns}
        return found

    def _share(self, shared: set[Delivery], outcome: Outcome, now_ns: int) -> None:
        for delivery in self._queue.startable():
            if delivery in shared:
                delivery.attempts += 1
                delivery.first_ns = delivery.first_ns or self._began_ns
                delivery.outcome = outcome
                wait = backoff.wait_s(self._policy, delivery.attempts, self._draw())
                delivery.due_ns = now_ns + int(wait * 1e9)
        self._queue.sort_out()
