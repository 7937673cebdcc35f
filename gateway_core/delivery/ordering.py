"""Ordered delivery: which events must wait until an earlier one is settled.

Events with the same order key (a partition or a record key) are delivered one after another: the first is under way, or
waits for its retry or its dead letter, and the others queue behind it. Events without an order key don't wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator

from ..contract.event import PARTITION_BITS, Event, text_of
from .attempt import Delivery

OrderKeyOf = Callable[[Event], Hashable]
"""The order key of an event, None if it has none. A key mapper is one."""


def of_partition(event: Event) -> Hashable:
    """Keeps the order of each partition of the channel or source."""
    return event.position >> PARTITION_BITS


def of_key(event: Event) -> Hashable:
    """Keeps the order of each record key; `partitionkey` stands in if the event has no record key."""
    if event.key is not None:
        return event.key
    value = event.attributes.get("partitionkey")
    return None if value is None else text_of(value).encode()


class DeliveryQueue:
    """Deliveries between attempts. `due` may start now; `waiting` wait for their retry (the owner moves them back to
    `due`); `spent` have had `most` attempts and can only be given up. The others wait behind one with their order
    key."""

    __slots__ = ("_behind", "_most", "_order_key_of", "due", "spent", "waiting")

    def __init__(self, order_key_of: OrderKeyOf | None, most: float) -> None:
        self.due: deque[Delivery] = deque()
        self.spent: deque[Delivery] = deque()
        self.waiting: set[Delivery] = set()
        self._most = most
        self._order_key_of = order_key_of
        self._behind: dict[Hashable, deque[Delivery] | None] = {}  # None: nothing waits behind the first

    def enter(self, delivery: Delivery) -> None:
        """A new delivery: due, or behind another."""
        if self._order_key_of is None:
            self.due.append(delivery)
            return
        order_key = delivery.order_key = self._order_key_of(delivery.event)
        if order_key is None:
            self.due.append(delivery)
        elif order_key not in self._behind:
            self._behind[order_key] = None
            self.due.append(delivery)
        else:
            behind = self._behind[order_key]
            if behind is None:
                behind = self._behind[order_key] = deque()
            behind.append(delivery)

    def leave(self, delivery: Delivery) -> None:
        """The delivery is settled: the next one with its order key is due."""
        order_key = delivery.order_key
        if order_key is None:
            return
        behind = self._behind[order_key]
        if behind:
            following = behind.popleft()
            (self.due if following.attempts < self._most else self.spent).append(following)
        else:
            del self._behind[order_key]

    def startable(self) -> Iterator[Delivery]:
        """Deliveries that wait for nothing but an attempt, or for one ahead of them with the same order key."""
        yield from self.due
        for behind in self._behind.values():
            yield from behind or ()

    def take_due(self, now_ns: int) -> Delivery | None:
        """Removes and returns the first due delivery whose own wait is over, None if there is none."""
        for index, delivery in enumerate(self.due):
            if delivery.due_ns <= now_ns:
                del self.due[index]
                return delivery
        return None

    def next_due_ns(self) -> int:
        """When the first wait of `due` ends; `due` must not be empty."""
        return min(delivery.due_ns for delivery in self.due)

    def sort_out(self) -> None:
        """Moves deliveries from `due` to `spent` if they have had all their attempts."""
        left = [d for d in self.due if d.attempts < self._most]
        self.spent.extend(d for d in self.due if d.attempts >= self._most)
        self.due.clear()
        self.due.extend(left)

    def under_way(self) -> Iterator[tuple[str, Delivery]]:
        """All queued deliveries, each with its state: `due`, `waiting` or `behind`."""
        yield from (("due", d) for d in (*self.due, *self.spent))
        yield from (("waiting", d) for d in self.waiting)
        yield from (("behind", d) for behind in self._behind.values() for d in behind or ())

    def withdraw(self, partition: int) -> list[Delivery]:
        """Removes and returns the deliveries of a partition that have no attempt under way."""
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
        for order_key, behind in self._behind.items():
            if behind:
                taken += [d for d in behind if of_partition(d.event) == partition]
                self._behind[order_key] = deque(d for d in behind if of_partition(d.event) != partition)
        return taken
