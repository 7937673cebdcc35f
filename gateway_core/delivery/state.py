"""How a subscription stands: what status, readiness and the commands ask of it."""

from __future__ import annotations

from collections.abc import Iterator

from ..guards import FilterGuard
from .attempt import Delivery
from .burials import Burials
from .lanes import Line
from .limits import Budget, Limits

MOST_HELD = 10_000
"""Events that one subscription holds in memory at the most; the channel keeps the rest."""
ALWAYS_HELD = 16
"""Events that it may hold whatever the others hold."""
FAILING = 5
"""Failures in a row after which the trigger is not ready."""


class State:
    """The questions to a subscription, which keeps these facts."""

    in_flight: int
    failures_in_a_row: int
    _held: int
    _budget: Budget
    _stopping: bool
    _line: Line
    _burials: Burials | None
    _limits: Limits
    _filter: FilterGuard | None

    def room(self, count: int = 1) -> bool:
        """Whether `count` more events may come now."""
        if self._stopping:
            return False
        held = self._held + count
        return held <= ALWAYS_HELD or (held <= MOST_HELD and self._budget.used < self._budget.limit)

    @property
    def paused(self) -> bool:
        """True while the dead letter refuses a letter."""
        return self._burials is not None and self._burials.stuck > 0

    @property
    def busy(self) -> bool:
        """True while an attempt or the writing of a letter is under way."""
        return self.in_flight > 0 or (self._burials is not None and self._burials.sending)

    @property
    def short(self) -> bool:
        """True while this machine lacks what an attempt needs (`Outcome.local`)."""
        return self._limits.short

    def under_way(self) -> Iterator[tuple[str, Delivery]]:
        """What is held, but for attempts in flight: `due`, `waiting` (for its retry), `behind` another of its order,
        `letter` (on its way into the dead letter)."""
        yield from self._line.under_way()
        if self._burials is not None:
            yield from (("letter", delivery) for delivery in self._burials.deliveries())

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
        """True while the subscriber answers nothing but failures."""
        return self.failures_in_a_row >= FAILING
