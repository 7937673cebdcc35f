"""Tracks which records of a partition are settled, and the offset that may be committed."""

from __future__ import annotations

from collections import deque


class Tracker:
    """Records begin in the order of their offsets, which may have gaps (compaction, transactions), and are settled in
    any order. `safe` is the offset before which all records are settled: the only one that may be committed."""

    __slots__ = ("_line", "next", "open")

    def __init__(self, start: int) -> None:
        self.next = start  # the offset after the last that was begun
        self.open: set[int] = set()  # begun, and not settled
        self._line: deque[int] = deque()  # begun, in order; the first is open

    def begin(self, offset: int) -> None:
        """The record is now in progress."""
        self._line.append(offset)
        self.open.add(offset)
        self.next = offset + 1

    def skip_to(self, offset: int) -> None:
        """No record before this offset will begin any more."""
        self.next = max(self.next, offset)

    def settle(self, offset: int) -> None:
        """The record has been processed. Unknown and already settled records are ignored."""
        open, line = self.open, self._line
        if offset not in open:
            return
        open.remove(offset)
        while line and line[0] not in open:
            line.popleft()

    @property
    def safe(self) -> int:
        """All records before this offset are settled."""
        return self._line[0] if self._line else self.next

    def settled_ahead(self) -> frozenset[int]:
        """The records that are settled at or after `safe`."""
        return frozenset(self._line) - self.open

    @property
    def ahead(self) -> int:
        """The number of records since the first unsettled one: what a crash would repeat."""
        return len(self._line)
