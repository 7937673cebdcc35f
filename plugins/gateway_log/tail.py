"""The end of a shard as the event loop knows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .places import Changes, Place
from .ring import Ring

if TYPE_CHECKING:
    from .cursor import Cursor


class Tail:
    """`end` is the sequence before which all events have been offered to live subscriptions, `first` that of the
    oldest event there is. Remembers which cursors changed since their places were last taken to be written; `notify` is
    called with the first of them."""

    def __init__(self, shard: int, first: int, end: int, routed: int, notify: Callable[[], None]) -> None:
        self.shard = shard
        self.first = first
        self.end = end
        self.ring = Ring(end)
        self.cursors: dict[str, Cursor] = {}
        self._changed: list[Cursor] = []
        self._parted: list[tuple[str, Place]] = []
        self._routed = routed  # as it was last taken
        self._notify = notify

    def mark(self, cursor: Cursor) -> None:
        """The cursor's place is to be written."""
        if not cursor.changed:
            if not self._changed:
                self._notify()
            cursor.changed = True
            self._changed.append(cursor)

    def part(self, name: str, place: Place) -> None:
        """The place of a subscription that is no longer attached is to be written."""
        self._parted.append((name, place))
        self._notify()

    @property
    def stale(self) -> bool:
        """Whether there is something to write."""
        return bool(self._changed or self._parted) or self._routed != self.end

    def take(self) -> Changes:
        """What is to be written. If that fails, `put_back` it."""
        places = [*self._parted]
        for cursor in self._changed:
            cursor.changed = False
            if cursor.feed.attached:
                places.append((cursor.feed.name, cursor.place()))
        self._changed, self._parted = [], []
        self._routed = self.end
        return Changes(self.shard, self.end, places)

    def put_back(self, changes: Changes) -> None:
        """These changes could not be written."""
        self._routed = -1
        for name, place in changes.places:
            cursor = self.cursors.get(name)
            if cursor is not None:
                self.mark(cursor)
            else:
                self._parted.append((name, place))
