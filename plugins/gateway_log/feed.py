"""A subscription, over all shards of this process (`gateway_core.interfaces.Feed`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway_core.abilities import Standing
from gateway_core.event import Event
from gateway_core.guards import Errors
from gateway_core.interfaces import Filter

from .reader import SHARD_BITS, place_of

if TYPE_CHECKING:
    from .cursor import Cursor


class LogFeed:
    """`wake(cursor)` is called for each cursor that can catch up."""

    __slots__ = ("attached", "cursors", "errors", "filter", "from_start", "full", "matches", "name", "offer", "wake")

    def __init__(
        self,
        name: str,
        filter: Filter,
        offer: Callable[[Event], bool],
        from_start: bool,
        wake: Callable[[Cursor], None],
    ) -> None:
        self.name = name
        self.filter = filter
        self.matches = filter.matches
        self.offer = offer
        self.from_start = from_start
        self.wake = wake
        self.cursors: dict[int, Cursor] = {}  # by shard
        self.full = False
        self.attached = True
        self.errors = Errors("a filter")

    def ack(self, position: int) -> None:
        """The event at this position is dealt with."""
        cursor = self.cursors[position >> SHARD_BITS]
        cursor.pending.pop(position, None)
        if not cursor.changed:
            cursor.tail.mark(cursor)

    def resume(self) -> None:
        """There is room again."""
        self.full = False
        for cursor in self.cursors.values():
            if cursor.behind:
                self.wake(cursor)

    def standing(self, position: int) -> Standing | None:
        """Where an event is for this subscription (`gateway_core.abilities.Placed`)."""
        shard, sequence = place_of(position)
        cursor = self.cursors.get(shard)
        return None if cursor is None else cursor.standing(sequence)

    def lag(self) -> int:
        """Events that the subscription has not dealt with, those unread counted before the filter."""
        return sum(cursor.lag() for cursor in self.cursors.values())
