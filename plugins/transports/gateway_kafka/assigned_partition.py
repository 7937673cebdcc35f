"""A partition of a topic while it is assigned to us: its records, and how far they are settled."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from gateway_core.contract.event import PARTITION_BITS, Event

from .client import Partition, Record
from .tracker import Tracker


class AssignedPartition:
    """A partition that is assigned to us. `partition_id` identifies it in event positions."""

    __slots__ = (
        "committed",
        "end",
        "events",
        "name",
        "own",
        "partition_id",
        "passed",
        "paused",
        "pumping",
        "queue",
        "settled",
        "short",
        "start",
        "tracker",
    )

    def __init__(self, name: Partition, partition_id: int, start: int) -> None:
        self.name = name
        self.partition_id = partition_id
        self.tracker = Tracker(start)
        self.queue: deque[Record] = deque()
        self.events: list[Event] = []  # decoded and begun, waiting for room
        self.paused = False
        self.pumping = False
        self.own = start  # from here on, what is settled was settled by us
        self.start = self.committed = start  # `committed` is committed, as far as known; -1: nobody knows
        self.settled: frozenset[int] = frozenset()  # from a previous assignment
        self.end = self.passed = start  # before `passed` nothing more comes
        self.short = 0  # how often in a row its first record could not be read for lack of memory

    @property
    def expected(self) -> int:
        """The next record has this offset or a later one."""
        return self.queue[-1].offset + 1 if self.queue else self.tracker.next

    def position(self, offset: int) -> int:
        return self.partition_id << PARTITION_BITS | offset + 1


class Leaving:
    """Partitions that are being revoked, each with the offsets that were in flight."""

    def __init__(self, partitions: Sequence[tuple[AssignedPartition, set[int]]]) -> None:
        self.partitions = partitions

    @property
    def in_flight(self) -> bool:
        """Whether any of them still is."""
        return any(p.tracker.open & begun for p, begun in self.partitions)
