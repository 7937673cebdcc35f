"""A bridge carries events from a source to a sink. The source is acknowledged once the sink or dead letter has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..contract import event_data
from ..contract.departure import Left, left_of
from ..contract.errors import NotDelivered, Overloaded, StorageError, TidegateError
from ..contract.event import PARTITION_BITS, Event
from ..contract.interfaces import Accepted, Filter, Observer, Outcome, Sink
from ..contract.one_line import one_line
from ..delivery import Subscription
from .intake import BoundSource, Counted
from .metering import Meter


class _Group:
    """Events that arrived together. They are acknowledged together, once the last is settled. `position` is that of the
    first in the source; a source with positions hands its events over one by one."""

    __slots__ = ("done", "left", "left_by", "outcome", "position")

    def __init__(self, left: int, position: int, done: Accepted) -> None:
        self.left = left
        self.position = position
        self.done = done
        self.outcome: Outcome | None = None
        self.left_by: Left | None = None


class Bridge(Counted):
    """The intake of a bridge's source and the feed of its subscription."""

    stores = False
    deduplicates = False
    sender_waits = True
    """A sender waits for the answer, so it is told of a pause at once. False for a source that can wait."""

    def __init__(self, name: str, filter: Filter | None, observers: tuple[Observer, ...] = ()) -> None:
        super().__init__(name, observers)
        self.subscription: Subscription  # set by the builder, which needs `give_back` for it
        self.filter = filter
        self._groups: dict[int, _Group] = {}
        self._last = 0
        self.accepted = self.unwanted = 0

    def observe(self, observers: tuple[Observer, ...]) -> None:
        """Replaces the observers."""
        super().observe(observers)
        self.subscription.observe(observers)

    def accept(self, events: Sequence[Event], done: Accepted) -> None:
        if self.filter is not None:
            wanted = [e for e in events if self.filter.matches(e)]
            if event_data.asked:
                event_data.release()
            self.unwanted += len(events) - len(wanted)
            self.accepted += len(events) - len(wanted)
            events = wanted
        if not events:
            done(None)
            return
        if self.sender_waits and (pause := self.subscription.pause_left_s()):
            done(Overloaded(f"bridge {self.name!r}: its sink asked for a pause", pause))
            return
        if not self.subscription.room(len(events)):
            done(Overloaded(f"bridge {self.name!r} has as many events under way as it may hold"))
            return
        group = _Group(len(events), events[0].position, done)
        group.left_by = left_of(done)
        for event in events:
            self._last += 1
            # the source's partition stays, for `order: partition` and `withdraw`
            position = event.position = event.position >> PARTITION_BITS << PARTITION_BITS | self._last
            self._groups[position] = group
        for event in self.subscription.offer_all(events):  # large events used up the memory budget
            self.give_back(event.position, Outcome(False, retry=True, reason="as much is under way as may be held"))

    def undeliverable(self, event: Event, outcome: Outcome, dest: str, done: Accepted) -> None:
        dead_letters = self.subscription.dead_letters
        if dead_letters is None:
            done(StorageError(f"bridge {self.name!r} has no dead letter: {outcome.reason}"))
        else:
            dead_letters.write(event, outcome, dest, done)

    def withdraw(self, partition: int) -> Sequence[int]:
        """See `Intake.withdraw`. The positions are the source's."""
        return [self._groups.pop(position).position for position in self.subscription.withdraw(partition)]

    def ack(self, position: int) -> None:
        self.accepted += 1
        self._settle(position, None)

    def give_back(self, position: int, outcome: Outcome) -> None:
        """The sink did not accept the event, and there is no dead letter: the source gets the failure."""
        self.failed += 1
        self._settle(position, outcome)

    def resume(self) -> None:
        return  # nothing is kept here: the source retries

    def left(self, position: int) -> bool:
        """Whether the sender of this event does not wait any more. Another of its group may have been delivered: the
        answer is that of a failure, and the sender owns them all."""
        group = self._groups.get(position)
        return group is not None and group.left_by is not None and group.left_by()

    def lag(self) -> int:
        return len(self._groups)

    def _settle(self, position: int, failure: Outcome | None) -> None:
        group = self._groups.pop(position)
        if failure is not None and (group.outcome is None or not group.outcome.retry):
            group.outcome = failure  # a failure that may succeed later decides for all of them
        group.left -= 1
        if group.left == 0:
            group.done(_error(group.outcome) if group.outcome is not None else None)


@dataclass(slots=True)
class Bridged:
    """A bridge with its source and sinks; `sinks` are started and stopped with it."""

    name: str
    bridge: Bridge
    bound_source: BoundSource
    dead_letter: Sink | None
    sinks: list[Sink]
    meter: Meter | None = None

    @property
    def filter(self) -> Filter | None:
        """Which events it wants; None if all."""
        return self.bridge.filter

    @property
    def delivery(self) -> Subscription:
        """How it delivers."""
        return self.bridge.subscription


def _error(outcome: Outcome) -> TidegateError:
    """The error for the source."""
    detail = f"not delivered: {one_line(outcome.reason)}"
    if outcome.retry:
        return Overloaded(detail, outcome.retry_after_s or 1.0)
    return NotDelivered(f"{detail}; sending it again will not help", outcome.code)
