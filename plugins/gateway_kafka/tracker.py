"""Which records of a partition are settled, and the offset that may be committed."""

from __future__ import annotations

from collections import deque


class Tracker:
    """Records are begun in the order of their offsets, which may have gaps (compaction, transactions), and settled in
    any order. `safe` is the offset before which all are settled: the only one that may be committed."""

    __slots__ = ("_done", "_line", "next")

    def __init__(self, start: int) -> None:
        self.next = start  # the offset after the last that was begun
        self._line: deque[int] = deque()  # begun; the first is not settled
        self._done: set[int] = set()  # settled, with one before them that is not

    def begin(self, offset: int) -> None:
        """The record is on its way."""
        self._line.append(offset)
        self.next = offset + 1

    def take_back(self, offset: int) -> None:
        """The record that was begun last is not on its way after all."""
        if self._line and self._line[-1] == offset:
            self._line.pop()
            self.next = offset

    def settle(self, offset: int) -> None:
        """The record is dealt with. What was never begun, or is settled already, is left alone."""
        line = self._line
        if not line or offset < line[0] or offset >= self.next:
            return
        if offset != line[0]:
            self._done.add(offset)
            return
        line.popleft()
        while line and line[0] in self._done:
            self._done.remove(line.popleft())

    @property
    def safe(self) -> int:
        """All records before this offset are settled."""
        return self._line[0] if self._line else self.next

    @property
    def open(self) -> int:
        """Records begun and not settled."""
        return len(self._line) - len(self._done)

    @property
    def ahead(self) -> int:
        """Records since the first that is not settled: what a crash would bring again."""
        return len(self._line)
