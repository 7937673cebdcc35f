"""The order of deliveries: which events must wait until an earlier one is settled.

A lane is what keeps an order: a partition, or a record key. One delivery of each lane is under way or waits for its
retry (or its dead letter); the others of the lane stand behind it. Events without a lane don't wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

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


class Lanes:
    """Who stands where. `len()` is the number of lanes in use."""

    __slots__ = ("_behind", "_of")

    def __init__(self, of: LaneOf) -> None:
        self._of = of
        self._behind: dict[Hashable, deque[Delivery] | None] = {}  # None: nobody waits behind the one under way

    def __len__(self) -> int:
        return len(self._behind)

    def enter(self, delivery: Delivery) -> bool:
        """Whether the delivery may begin; else it stands behind another, and comes out of `leave`."""
        lane = delivery.lane = self._of(delivery.event)
        if lane is None:
            return True
        if lane not in self._behind:
            self._behind[lane] = None
            return True
        behind = self._behind[lane]
        if behind is None:
            behind = self._behind[lane] = deque()
        behind.append(delivery)
        return False

    def leave(self, delivery: Delivery) -> Delivery | None:
        """The delivery is settled; returns the next of its lane, which may begin now."""
        lane = delivery.lane
        if lane is None:
            return None
        behind = self._behind[lane]
        if behind:
            return behind.popleft()
        del self._behind[lane]
        return None

    def drop(self, unwanted: Callable[[Delivery], bool]) -> list[Delivery]:
        """Takes out those that stand behind another and are not wanted any more."""
        dropped: list[Delivery] = []
        for lane, behind in self._behind.items():
            if behind:
                dropped += [d for d in behind if unwanted(d)]
                self._behind[lane] = deque(d for d in behind if not unwanted(d))
        return dropped
