"""The newest events of a shard in memory: a subscription that is a little behind needs no file."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from gateway_core.contract.event import Event

MAX_EVENTS = 16_384
MAX_BYTES = 16 * 1024 * 1024


class Ring:
    """Events with consecutive sequences, in the groups in which they were committed."""

    def __init__(self, following: int, most_events: int = MAX_EVENTS, most_bytes: int = MAX_BYTES) -> None:
        self._groups: deque[tuple[int, Sequence[Event], int]] = deque()  # (first sequence, events, bytes)
        self._following = following
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._bytes = 0
        self.start = following

    def push(self, events: Sequence[Event], size: int) -> None:
        """Adds the next events, and drops the oldest if there are too many."""
        groups = self._groups
        groups.append((self._following, events, size))
        self._following += len(events)
        self._bytes += size
        while self._following - self.start > self._most_events or self._bytes > self._most_bytes:
            first, gone, size = groups.popleft()
            self._bytes -= size
            self.start = first + len(gone)

    def read(self, sequence: int, count: int) -> list[Event]:
        """Up to `count` events from this sequence, which must not be before `start`."""
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
