"""The state of a subscription, for status, readiness and commands."""

from __future__ import annotations

from collections.abc import Iterator

from ..pipeline.guards import FilterGuard
from .attempt import Delivery
from .dead_letter_writer import SubscriptionDeadLetterWriter
from .limits import Budget, Limits
from .ordering import DeliveryQueue

MOST_HELD = 10_000
"""How many events one subscription holds in memory at most; the channel keeps the rest."""
ALWAYS_HELD = 16
"""How many events it may hold even if the memory budget is used up."""
FAILING = 5
"""Failures in a row after which the trigger is not ready."""


class State:
    """Read-only properties of `Subscription`, which sets these attributes."""

    in_flight: int
    failures_in_a_row: int
    _held: int
    _budget: Budget
    _stopping: bool
    _queue: DeliveryQueue
    _dead_letters: SubscriptionDeadLetterWriter | None
    _limits: Limits
    _filter: FilterGuard | None

    def room(self, count: int = 1) -> bool:
        """Whether there is room for `count` more events."""
        if self._stopping:
            return False
        held = self._held + count
        return held <= ALWAYS_HELD or (held <= MOST_HELD and self._budget.used < self._budget.limit)

    @property
    def blocked(self) -> bool:
        """True while a dead letter can't be written: no attempt starts until it can."""
        return self._dead_letters is not None and self._dead_letters.stuck > 0

    @property
    def busy(self) -> bool:
        """True while an attempt or the write of a dead letter is under way."""
        return self.in_flight > 0 or (self._dead_letters is not None and self._dead_letters.sending)

    @property
    def short(self) -> bool:
        """True while this machine is short of something that an attempt needs (`Outcome.local`)."""
        return self._limits.short

    def under_way(self) -> Iterator[tuple[str, Delivery]]:
        """Events held without an attempt in flight, each with its state: `due`, `waiting` (for a retry), `behind`
        (another one with its order key) or `letter` (being written to the dead letter)."""
        yield from self._queue.under_way()
        if self._dead_letters is not None:
            yield from (("letter", delivery) for delivery in self._dead_letters.deliveries())

    @property
    def held(self) -> int:
        """Events taken from the channel and not settled."""
        return self._held

    @property
    def filter_errors(self) -> int:
        """Events on which the filter raised, since the start."""
        return self._filter.errors.count if self._filter is not None else 0

    @property
    def failing(self) -> bool:
        """True while all attempts fail."""
        return self.failures_in_a_row >= FAILING
