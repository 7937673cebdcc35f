"""The newest events of a shard, in memory: a subscription that fell a little behind needs no file."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from gateway_core.event import Event

MOST_EVENTS = 16_384
MOST_BYTES = 16 * 1024 * 1024


class Ring:
    """Events with growing sequences without gaps, kept in the groups in which they came."""

    def __init__(self, following: int, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES) -> None:
        self._groups: deque[tuple[int, Sequence[Event], int]] = deque()  # (first sequence, events, bytes)
        self._following = following
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._bytes = 0
        self.start = following

    def push(self, events: Sequence[Event], size: int) -> None:
        """Adds the events that follow, and forgets the oldest where there are too many."""
        groups = self._groups
        groups.append((self._following, events, size))
        self._following += len(events)
        self._bytes += size
        while self._following - self.start > self._most_events or self._bytes > self._most_bytes:
            first, gone, size = groups.popleft()
            self._bytes -= size
            self.start = first + len(gone)

    def read(self, sequence: int, count: int) -> list[Event]:
        """Up to `count` events from this sequence on, which must not lie before `start`."""
        found: list[Event] = []
        for first, events, _ in islice(self._groups, self._find(sequence), None):
            at = sequence - first
            found += events[at : at + count - len(found)]
            sequence = first + len(events)
            if len(found) >= count:
                break
        return found

    def _find(self, sequence: int) -> int:
        low, high = 0, len(self._groups)
        while low < high:
            middle = (low + high) // 2
            first, events, _ = self._groups[middle]
            if first + len(events) <= sequence:
                low = middle + 1
            else:
                high = middle
        return low
