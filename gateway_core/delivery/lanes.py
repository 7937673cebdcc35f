"""The order of deliveries: which events must wait until an earlier one is settled.

A lane is what keeps an order: a partition, or a record key. One delivery of each lane is under way or waits for its
retry (or its dead letter); the others of the lane stand behind it. Events without a lane don't wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator

from ..event import PARTITION_BITS, Event, text_of
from .attempt import Delivery

LaneOf = Callable[[Event], Hashable]
"""The lane of an event, None for none. A key mapper is one."""


def of_partition(event: Event) -> Hashable:
    """One lane for each partition of the channel or source."""
    return event.position >> PARTITION_BITS


def of_key(event: Event) -> Hashable:
    """One lane for each record key, or `partitionkey` where the event has no record key; none without both."""
    if event.key is not None:
        return event.key
    value = event.attributes.get("partitionkey")
    return None if value is None else text_of(value).encode()


class Line:
    """Deliveries that stand before an attempt. `due` may begin now, `waiting` wait for their retry's time (the owner
    fills both again), `spent` have had `most` attempts and can only be given up, the others stand behind one of their
    lane."""

    __slots__ = ("_behind", "_lane_of", "_most", "due", "spent", "waiting")

    def __init__(self, lane_of: LaneOf | None, most: float) -> None:
        self.due: deque[Delivery] = deque()
        self.spent: deque[Delivery] = deque()
        self.waiting: set[Delivery] = set()
        self._most = most
        self._lane_of = lane_of
        self._behind: dict[Hashable, deque[Delivery] | None] = {}  # None: nobody stands behind the one that has begun

    def enter(self, delivery: Delivery) -> None:
        """A new delivery: due, or behind another."""
        if self._lane_of is None:
            self.due.append(delivery)
            return
        lane = delivery.lane = self._lane_of(delivery.event)
        if lane is None:
            self.due.append(delivery)
        elif lane not in self._behind:
            self._behind[lane] = None
            self.due.append(delivery)
        else:
            behind = self._behind[lane]
            if behind is None:
                behind = self._behind[lane] = deque()
            behind.append(delivery)

    def leave(self, delivery: Delivery) -> None:
        """The delivery is settled: the next of its lane is due."""
        lane = delivery.lane
        if lane is None:
            return
        behind = self._behind[lane]
        if behind:
            following = behind.popleft()
            (self.due if following.attempts < self._most else self.spent).append(following)
        else:
            del self._behind[lane]

    def standing(self) -> Iterator[Delivery]:
        """Those that nothing but an attempt, or the end of one before them, is missing for."""
        yield from self.due
        for behind in self._behind.values():
            yield from behind or ()

    def take_due(self, now_ns: int) -> Delivery | None:
        """Takes out the first that is due whose own time has come."""
        for index, delivery in enumerate(self.due):
            if delivery.due_ns <= now_ns:
                del self.due[index]
                return delivery
        return None

    def next_due_ns(self) -> int:
        """When the first of `due`, of which there are some, has its own time."""
        return min(delivery.due_ns for delivery in self.due)

    def sort_out(self) -> None:
        """Moves those of `due` that have had all their attempts to `spent`."""
        left = [d for d in self.due if d.attempts < self._most]
        self.spent.extend(d for d in self.due if d.attempts >= self._most)
        self.due.clear()
        self.due.extend(left)

    def under_way(self) -> Iterator[tuple[str, Delivery]]:
        """All of them, each with what it waits for: `due`, `waiting` or `behind`."""
        yield from (("due", d) for d in (*self.due, *self.spent))
        yield from (("waiting", d) for d in self.waiting)
        yield from (("behind", d) for behind in self._behind.values() for d in behind or ())

    def withdraw(self, partition: int) -> list[Delivery]:
        """Takes out the deliveries of a partition for which no attempt is under way."""
        behind = self._behind_of(partition)
        begun = [d for d in (*self.due, *self.spent, *self.waiting) if of_partition(d.event) == partition]
        gone = set(begun)
        for queue in (self.due, self.spent):
            left = [d for d in queue if d not in gone]
            queue.clear()
            queue.extend(left)
        self.waiting -= gone
        for delivery in begun:
            if delivery.timer is not None:
                delivery.timer.cancel()
            self.leave(delivery)
        return [*behind, *begun]

    def _behind_of(self, partition: int) -> list[Delivery]:
        taken: list[Delivery] = []
        for lane, behind in self._behind.items():
            if behind:
                taken += [d for d in behind if of_partition(d.event) == partition]
                self._behind[lane] = deque(d for d in behind if of_partition(d.event) != partition)
        return taken
