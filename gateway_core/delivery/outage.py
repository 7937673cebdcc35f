"""Outages of a subscriber.

After `AWAY_AFTER` attempts in a row without any answer (refused, broken or silent connections; not 4xx or 5xx), the
subscriber counts as down. From then on there is one attempt at a time, each with the next event in turn. The waits
between them follow the policy, up to `MOST_WAIT_S`. Once two different events got no answer, a failed attempt stands
for all: it counts as a failed attempt of every event that was held, with its own wait over, when it began. So events
keep the number of tries and the waits of the policy, and events that waited together are given up together. Any answer,
even a refusal, ends the outage; an event whose own wait is not over then goes on waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..contract import backoff
from ..contract.clock import Clock
from ..contract.config_model import DeliveryConfig
from ..contract.interfaces import Outcome

if TYPE_CHECKING:
    from .deliveries import Delivery, DeliveryQueue

AWAY_AFTER = 5
MOST_WAIT_S = 5.0


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
