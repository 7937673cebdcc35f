"""Hands the events of fetched messages to an intake, and says which messages may be acknowledged."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import anyio

from gateway_core.contract.clock import Clock, Timer
from gateway_core.contract.errors import NotDelivered, Refused
from gateway_core.contract.event import Event, position_of
from gateway_core.contract.interfaces import Intake, Outcome
from gateway_core.contract.one_line import one_line

from .held_bytes import MOST_HELD_BYTES

T = TypeVar("T")

log = logging.getLogger("tidegate.transport")

MOST_AT_ONCE = 512
"""The most events in one group: other sources of the broker queue behind it."""
MOST_BYTES = 1024 * 1024
"""The most bytes of data in one group of several events: a channel stores a group whole or not at all, so a large group
would be one large transaction."""
RETRY_S = 1.0
"""How long to wait after the intake could not take an event; in seconds."""
ROOM_S = 0.1
"""How often to offer an event to a bridge that has no room, if nothing else shows that it has; in seconds."""
DEAD_LETTER_RETRY_S = 5.0
DRAIN_S = 10.0


class Handover(Generic[T]):
    """The way from a transport's messages to the intake of a source that fetches them.

    `take` gets an event and its token: whatever the source needs to acknowledge the message. Once the event is in
    stable storage, at its destination or in the dead letter, `settle` is called with the token, once. It is never
    called for an event that is not safe.

    Events go to the intake in the order of `take`. A broker gets all that wait at once, and one group is under way at
    a time. A bridge gets them one by one, as long as it has room. What the intake can't take now (`Overloaded`,
    `StorageError`) is offered again, before any later event. What it will never take (`Refused`, `NotDelivered`) goes
    to the dead letter; of a group, only the event at fault.

    `owner`     the source's path in the config, for the log.
    `address`   the source's address, for dead letters.
    `in_order`  settles tokens in the order in which they were taken. Else as soon as each is safe.
    `partition` the number that the events get as their partition (`PARTITION_BITS`).
    `give_back` for a transport that can refuse a message: called with the token and the error instead of writing to the
                dead letter what the intake will never take. The token is settled then. Not with `in_order`.
    `gives_back` which errors `give_back` is for; by default all.
    `most_bytes` about the most bytes that may be held. Whatever is taken is held, so that a large event can come in:
                the source reads nothing while it is `full`, until it is `roomy`.

    Nothing here bounds how many messages wait: the source does, by its prefetch count or its receive window. All calls
    are made on the event loop's thread.
    """

    intake: Intake

    def __init__(
        self,
        owner: str,
        address: str,
        clock: Clock,
        settle: Callable[[T], None],
        *,
        in_order: bool = False,
        partition: int = 1,
        give_back: Callable[[T, Refused | NotDelivered], None] | None = None,
        gives_back: Callable[[Refused | NotDelivered], bool] = lambda error: True,
        most_bytes: int = MOST_HELD_BYTES,
    ) -> None:
        self._owner = owner
        self._address = address
        self._clock = clock
        self._settle = settle
        self._in_order = in_order
        self._partition = partition
        self._give_back = give_back
        self._gives_back = gives_back
        self._most_bytes = most_bytes
        self._bytes = 0  # of `_items`
        self._count = 0
        self._items: dict[int, _Item[T]] = {}  # taken and not settled, by position
        self._waiting: deque[_Item[T]] = deque()
        self._groups: deque[list[_Item[T]]] = deque()  # of a broker: the first is under way or waits for the timer
        self._answering = False  # a group is under way
        self._timer: Timer | None = None
        self._handing = False
        self._stopping = False
        self._line: deque[_Item[T]] = deque()  # `in_order`: all that are taken
        self._dead_letter_fails = False
        self._under_way = 0
        self._idle: anyio.Event | None = None

    @property
    def held(self) -> int:
        """Messages that were taken and are not settled."""
        return len(self._items)

    @property
    def full(self) -> bool:
        """Whether so many bytes are held that nothing more should be read."""
        return self._bytes >= self._most_bytes

    @property
    def roomy(self) -> bool:
        """Whether there is room enough to read again."""
        return self._bytes <= self._most_bytes // 2

    def take(self, event: Event, token: T) -> None:
        """Takes the event of a message."""
        self._waiting.append(self._item(event, token))
        if self._timer is None and not self._answering:
            self._hand_over()

    def dead_letter(self, event: Event, token: T, outcome: Outcome) -> None:
        """Takes an event that goes to the dead letter: what was received is not an event (`Stage.DECODE`), and this one
        is made from it. Retried until it is safe there."""
        item = self._item(event, token)
        item.outcome = outcome
        self._write(item)

    def skip(self, token: T) -> None:
        """Takes a message that needs no further care (it was dropped, as configured): it is settled in its turn."""
        self._done(self._item(None, token))

    def drop(self) -> None:
        """The connection is gone, and the remote side will send again what was not acknowledged: tokens that are not
        settled are void. Nothing waits any more; what is under way ends without `settle`."""
        for item in self._items.values():
            item.void = True
            _quiet(item)
        self._items.clear()
        self._bytes = 0
        self._line.clear()
        self._clear()
        self._ended(len(self.intake.withdraw(self._partition)))

    async def drain(self, limit_s: float = DRAIN_S) -> None:
        """Hands nothing over any more, and returns once what is under way is answered and settled, or after `limit_s`
        seconds. The rest will be sent again. Before it, the source stops fetching; after it, it may disconnect."""
        self._stopping = True
        waiting = [*self._waiting, *(item for group in list(self._groups)[self._answering :] for item in group)]
        waiting += [item for item in self._items.values() if item.timer is not None]
        withdrawn = self.intake.withdraw(self._partition)
        waiting += [self._items[position] for position in withdrawn if position in self._items]
        for item in waiting:
            self._forget(item)
        self._clear()
        self._ended(len(withdrawn))
        if self._under_way:
            self._idle = anyio.Event()
            with anyio.move_on_after(limit_s):
                await self._idle.wait()

    def _clear(self) -> None:
        """Forgets what waits, but not the group that is under way."""
        self._waiting.clear()
        while len(self._groups) > self._answering:
            self._groups.pop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- to the intake ----------------------------------------------------------------------------------------------

    def _item(self, event: Event | None, token: T) -> _Item[T]:
        self._count += 1
        position = position_of(self._partition, self._count)
        item = self._items[position] = _Item(event, token, position)
        self._bytes += item.size
        if self._in_order:
            self._line.append(item)
        return item

    def _hand_over(self) -> None:
        if self.intake.stores:
            self._next_group()
        else:
            self._one_by_one()

    def _next_group(self) -> None:
        """Starts the next group: what is left of the one before, else all that wait."""
        self._timer = None
        if self._handing:
            return
        self._handing = True  # an intake that answers at once is not called from its own answer
        while not self._answering and not self._stopping and self._timer is None:
            if not self._groups:
                if not self._waiting:
                    break
                self._groups.append(self._gathered())
            self._answering = True
            self._under_way += 1
            self.intake.accept([item.event for item in self._groups[0] if item.event is not None], self._answered)
        self._handing = False

    def _gathered(self) -> list[_Item[T]]:
        """Removes and returns those that wait, as many as may go together."""
        waiting = self._waiting
        group = [waiting.popleft()]
        size = group[0].size
        while waiting and len(group) < MOST_AT_ONCE and (size := size + waiting[0].size) <= MOST_BYTES:
            group.append(waiting.popleft())
        return group

    def _answered(self, error: BaseException | None) -> None:
        group = self._groups[0]
        self._answering = False
        if error is None:
            self._groups.popleft()
            for item in group:
                self._done(item)
        elif group[0].void:  # then all of them are
            self._groups.popleft()
        elif self._stopping:
            for item in self._groups.popleft():
                self._forget(item)
        elif not isinstance(error, Refused | NotDelivered):
            self._timer = self._clock.call_later(RETRY_S, self._next_group)
        elif len(group) > 1:  # halves the group to find the event that the channel will never take (it is too large)
            half = len(group) // 2
            self._groups[0] = group[half:]
            self._groups.appendleft(group[:half])
        else:
            self._groups.popleft()
            self._refused(group[0], error)
        self._ended()
        if self._timer is None:
            self._next_group()

    def _one_by_one(self) -> None:
        self._timer = None
        if self._handing:
            return
        self._handing = True
        while self._waiting and not self._stopping and self._timer is None:
            item = self._waiting.popleft()
            assert item.event is not None
            self._under_way += 1
            item.event.position = item.position  # the bridge sets another one each time
            item.asking = True
            self.intake.accept((item.event,), _Answer(self, item))
            item.asking = False
        self._handing = False

    def _answered_one(self, item: _Item[T], error: BaseException | None) -> None:
        if error is None:
            self._done(item)
            if self._timer is not None:  # there is room again
                self._timer.cancel()
                self._timer = None
        elif item.void:
            pass
        elif self._stopping:
            self._forget(item)
        elif isinstance(error, Refused | NotDelivered):
            self._refused(item, error)
        else:
            self._put_back(item)
            if self._timer is None:
                self._timer = self._clock.call_later(ROOM_S if item.asking else RETRY_S, self._one_by_one)
        self._ended()
        if self._timer is None:
            self._one_by_one()

    def _put_back(self, item: _Item[T]) -> None:
        """Puts an item back in its place among those that wait."""
        later = []
        while self._waiting and self._waiting[0].position < item.position:
            later.append(self._waiting.popleft())
        self._waiting.appendleft(item)
        self._waiting.extendleft(reversed(later))

    def _ended(self, count: int = 1) -> None:
        self._under_way -= count
        if self._under_way == 0 and self._idle is not None:
            self._idle.set()

    # -- to the dead letter -----------------------------------------------------------------------------------------

    def _refused(self, item: _Item[T], error: Refused | NotDelivered) -> None:
        if self._give_back is not None and self._gives_back(error):
            if not item.void:
                self._forget(item)
                self._give_back(item.token, error)
            return
        item.outcome = Outcome(False, reason=error.detail if isinstance(error, Refused) else str(error))
        self._write(item)

    def _write(self, item: _Item[T]) -> None:
        item.timer = None
        assert item.event is not None
        assert item.outcome is not None
        self._under_way += 1
        self.intake.undeliverable(item.event, item.outcome, self._address, lambda error: self._written(item, error))

    def _written(self, item: _Item[T], error: BaseException | None) -> None:
        if error is None:
            self._dead_letter_fails = False
            self._done(item)
        else:
            if not self._dead_letter_fails:
                log.error("%s: can't write to the dead letter, will retry: %s", self._owner, one_line(error))
            self._dead_letter_fails = True
            if self._stopping:
                self._forget(item)
            elif not item.void:
                item.timer = self._clock.call_later(DEAD_LETTER_RETRY_S, self._write, item)
        self._ended()

    # -- the end of a message ---------------------------------------------------------------------------------------

    def _done(self, item: _Item[T]) -> None:
        if item.void:
            return
        item.safe = True
        if not self._in_order:
            del self._items[item.position]
            self._bytes -= item.size
            self._settle(item.token)
            return
        line = self._line
        while line and line[0].safe:
            first = line.popleft()
            del self._items[first.position]
            self._bytes -= first.size
            self._settle(first.token)

    def _forget(self, item: _Item[T]) -> None:
        """It will be sent again: it is not settled, and with `in_order` nothing behind it is."""
        item.void = True
        _quiet(item)
        if self._items.pop(item.position, None) is not None:
            self._bytes -= item.size


class _Item(Generic[T]):
    """One message. `void`: its token means nothing any more. `safe`: it may be settled. `size`: its data's bytes."""

    __slots__ = ("asking", "event", "outcome", "position", "safe", "size", "timer", "token", "void")

    def __init__(self, event: Event | None, token: T, position: int) -> None:
        self.event = event
        self.token = token
        self.position = position
        self.size = len(event.data) if event is not None and event.data else 0
        self.outcome: Outcome | None = None
        self.timer: Timer | None = None
        self.safe = self.void = self.asking = False


class _Answer(Generic[T]):
    """A bridge's answer to one event."""

    __slots__ = ("_handover", "_item")

    def __init__(self, handover: Handover[T], item: _Item[T]) -> None:
        self._handover = handover
        self._item = item

    def __call__(self, error: BaseException | None) -> None:
        self._handover._answered_one(self._item, error)


def _quiet(item: _Item[Any]) -> None:
    if item.timer is not None:
        item.timer.cancel()
        item.timer = None
