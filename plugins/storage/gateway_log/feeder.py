"""Feeds subscriptions from the log: their cursors, and the tails of the shards that they follow.

Each event is routed once, when its commit is known, to the live subscriptions that match. A subscription without room
falls behind and catches up by itself, from the ring of newest events or from the file. Everything here runs on the
event loop, so the step from behind to live can't miss an event or offer one twice: a cursor becomes live when its next
sequence is the tail's end, and from then on it is offered each event that moves the end.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from gateway_core.contract import event_data
from gateway_core.contract.capabilities import DeliveryState, GivenUp
from gateway_core.contract.component_errors import Errors
from gateway_core.contract.event import PARTITION_BITS, Event, position_of, split_position
from gateway_core.contract.interfaces import Filter

from . import given_up as given_up_table
from .chunks import ChunkReader
from .cursor import CursorChanges, CursorState
from .routing import Router

log = logging.getLogger("tidegate.log")

STEP = 128
"""How many events of the ring a cursor handles before others have their turn."""
NEAR = 16_384
"""At the start, subscriptions that are at most this far behind share one read."""
RETRY_S = 1.0
MAX_EVENTS = 16_384
MAX_BYTES = 16 * 1024 * 1024
"""What a ring holds at most."""
MAX_PENDING = 1024
"""The most pending events that are stored one by one; the events after them are offered to the subscriber again."""
MAX_GIVEN_UP = 10_000
"""What is kept in memory about events that were given up while it can't be written; the oldest go first."""


class LogFeed:
    """A subscription over all shards of this process (`gateway_core.contract.interfaces.Feed`). `wake(cursor)` is
    called for each cursor that can catch up."""

    __slots__ = (
        "attached", "cursors", "elsewhere", "errors", "filter", "full", "matches", "name", "offer", "started_late",
        "wake",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        filter: Filter,
        offer: Callable[[Event], bool],
        wake: Callable[[Cursor], None],
    ) -> None:
        self.name = name
        self.filter = filter
        self.matches = filter.matches
        self.offer = offer
        self.wake = wake
        self.cursors: dict[int, Cursor] = {}  # by shard
        self.full = False
        self.attached = True
        self.started_late: str | None = None  # see `capabilities.StartsLate`
        self.elsewhere: Callable[[int, given_up_table.Fate], None] = _nowhere
        """Takes what became of an event in a shard that another worker writes."""
        self.errors = Errors("a filter")

    def ack(self, position: int) -> None:
        """The event at this position has been processed."""
        cursor = self.cursors[position >> PARTITION_BITS]
        cursor.pending.pop(position, None)
        if cursor.given_up and position in cursor.given_up:
            self.delivered_again(position, cursor.tail.now_ns(), by="rewind")
        if not cursor.changed:
            cursor.tail.mark(cursor)

    def give_up(self, position: int, given_up: GivenUp) -> None:
        """See `gateway_core.contract.capabilities.KeepsGivenUp`."""
        shard, sequence = split_position(position)
        if (cursor := self.cursors.get(shard)) is not None:
            cursor.given_up.discard(position)
            cursor.tail.note(given_up_table.row(sequence, self.name, given_up))

    def delivered_again(self, position: int, at_ns: int, letter: GivenUp | None = None, by: str = "") -> None:
        """See `gateway_core.contract.capabilities.KeepsGivenUp`."""
        shard, sequence = split_position(position)
        fate: given_up_table.Fate = given_up_table.Delivered(sequence, self.name, at_ns, by)
        if letter is not None:
            fate = given_up_table.row(sequence, self.name, replace(letter, delivered_ns=at_ns, delivered_by=by))
        if (cursor := self.cursors.get(shard)) is not None:
            cursor.given_up.discard(position)
            cursor.tail.note(fate)
        else:
            self.elsewhere(shard, fate)

    def resume(self) -> None:
        """There is room again."""
        self.full = False
        for cursor in self.cursors.values():
            if cursor.behind:
                self.wake(cursor)

    def begin(self) -> None:
        """The subscription may be offered events."""

    def end(self) -> None:
        """It is offered no more events."""

    def delivery_state(self, position: int) -> DeliveryState | None:
        """Where an event is for this subscription (`gateway_core.contract.capabilities.TracksDeliveries`)."""
        shard, sequence = split_position(position)
        cursor = self.cursors.get(shard)
        return None if cursor is None else cursor.delivery_state(sequence)

    def lag(self) -> int:
        """The number of events that the subscription has not processed; unread events count before the filter."""
        return sum(cursor.lag() for cursor in self.cursors.values())


class Cursor:
    """The position of a subscription in a shard.

    A *live* cursor is offered each event when it is committed. Once the subscriber has no room, the cursor falls
    *behind*: it remembers the next sequence to read, and catches up by itself when there is room again.

    `pending` has the positions that were offered and not acknowledged, oldest first. `redo` has sequences before `next`
    that were pending when the gateway stopped and must be offered again. `given_up` has positions that were given up
    before the cursor was set back.
    """

    __slots__ = ("begin", "behind", "busy", "changed", "feed", "given_up", "next", "pending", "redo", "tail")

    def __init__(self, feed: LogFeed, tail: Tail, next: int, redo: Sequence[int] = ()) -> None:
        self.feed = feed
        self.tail = tail
        self.next = next
        self.redo = list(redo)
        self.begin = 0  # its first sequence, if it is known that there were others before
        self.pending: dict[int, None] = {}
        self.given_up: set[int] = set()
        self.behind = True
        self.busy = False  # a step of catching up is in progress
        self.changed = False

    # -- offers -----------------------------------------------------------------------------------------------------

    def live(self, event: Event) -> None:
        """Offers an event that was just committed and that matches the filter."""
        if not self.behind and not self._offer(event):
            self.behind = True
            self.next = split_position(event.position)[1]

    def again(self, event: Event) -> None:
        """Offers an event that was read at the start and matches the filter, unless it was already processed."""
        sequence = split_position(event.position)[1]
        if self.behind or (sequence < self.next and sequence not in self.redo):
            return
        if self._offer(event):
            self.passed(sequence + 1)
        else:
            self.behind = True
            self.passed(sequence)

    def _offer(self, event: Event) -> bool:
        feed = self.feed
        if not self.changed:
            self.tail.mark(self)
        if feed.full:
            return False
        # before the offer, since the subscriber may acknowledge during it
        self.pending[event.position] = None
        try:
            if feed.offer(event):
                return True
        except Exception:
            log.exception("subscription %s failed to take an event", feed.name)
            asyncio.get_running_loop().call_later(RETRY_S, feed.resume)  # nothing else would resume it
        del self.pending[event.position]
        feed.full = True
        return False

    def catch_up(self, events: Sequence[Event]) -> int | None:
        """Offers those of these events that match the filter. Returns the sequence of the first one that found no room,
        or None."""
        matches = self.feed.matches
        for event in events:
            try:
                wanted = matches(event)
            except Exception as e:  # a filter that raises counts as a match
                self.feed.errors.note(f"{self.feed.name} gets the event all the same", e)
                wanted = True
            if wanted and not self._offer(event):
                if event_data.asked:
                    event_data.release()
                return split_position(event.position)[1]
        if event_data.asked:
            event_data.release()
        return None

    def passed(self, sequence: int) -> None:
        """All events before this sequence have been offered."""
        if not self.changed:
            self.tail.mark(self)
        if self.redo:
            self.redo = [s for s in self.redo if s >= sequence]
        self.next = max(self.next, sequence)

    def rewind(self, sequence: int) -> None:
        """Goes back to this sequence, and offers again what was offered before it and not acknowledged."""
        waiting = self._waiting(len(self.pending) + len(self.redo))
        self.next = min(sequence, self.next if self.behind else self.tail.end)
        self.behind = True
        self.pending.clear()
        self.redo = [s for s in waiting if s < self.next]
        if sequence < self.begin:  # else an event before its begin would seem not to be for it
            self.begin = 0
        if not self.changed:
            self.tail.mark(self)

    # -- its state --------------------------------------------------------------------------------------------------

    def state(self, *, detaching: bool = False) -> CursorState:
        """The state to write. `detaching`: the cursor will no longer follow the tail."""
        waiting = self._waiting(MAX_PENDING + 1)
        if len(waiting) > MAX_PENDING:
            return CursorState(waiting[-1], tuple(waiting[:-1]))
        return CursorState(self.next if self.behind else self.tail.end if detaching else None, tuple(waiting))

    def floor(self) -> int:
        """The first sequence that is still needed."""
        waiting = self._waiting(1)
        return waiting[0] if waiting else self.next if self.behind else self.tail.end

    def delivery_state(self, sequence: int) -> DeliveryState:
        """Where an event is."""
        if position_of(self.tail.shard, sequence) in self.pending or sequence in self.redo:
            return "pending"
        if sequence < self.begin:
            return "before"
        return "unread" if sequence >= (self.next if self.behind else self.tail.end) else "passed"

    def lag(self) -> int:
        """The number of unprocessed events; unread ones count before the filter."""
        unread = self.tail.end - max(self.next, self.tail.first) if self.behind else 0
        return len(self.pending) + len(self.redo) + max(unread, 0)

    def _waiting(self, count: int) -> list[int]:
        base = position_of(self.tail.shard, 0)
        waiting = [p - base for p in islice(self.pending, count)]
        if self.redo:  # some of `redo` were offered already and are pending; they are in between
            waiting = sorted({*waiting, *self.redo})[:count]
        return waiting


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


class Tail:
    """The end of a shard as the event loop knows it. `end` is the sequence before which all events have been offered to
    live subscriptions, `first` the sequence of the oldest event. Collects the cursors that have changed since they were
    last written; `notify` is called for the first of them."""

    def __init__(self, shard: int, first: int, end: int, routed: int, notify: Callable[[], None]) -> None:
        self.begins: dict[str, int] = {}  # by subscription, see `begins.py`
        self._begun: dict[str, int] = {}  # to be written
        self.shard = shard
        self.first = first
        self.oldest_ns = 0  # when its oldest event was received; 0 if it has none
        self.end = end
        self.ring = Ring(end)
        self.cursors: dict[str, Cursor] = {}
        self._changed: list[Cursor] = []
        self._detached: list[tuple[str, CursorState]] = []
        self._fates: list[given_up_table.Fate] = []
        self.any_given_up = False  # whether its file may know of events that were given up
        self.now_ns: Callable[[], int] = time.time_ns
        self._routed = routed  # as it was last taken
        self._notify = notify

    def mark(self, cursor: Cursor) -> None:
        """The cursor must be written."""
        if not cursor.changed:
            if not self._changed:
                self._notify()
            cursor.changed = True
            self._changed.append(cursor)

    def begin(self, cursor: Cursor) -> None:
        """The cursor is the first of its subscription here, and begins with its next event."""
        cursor.begin = self.begins[cursor.feed.name] = cursor.next
        if cursor.next > 1:
            self._begun[cursor.feed.name] = cursor.next
        self.mark(cursor)

    def detach(self, name: str, state: CursorState) -> None:
        """The last state of a detached subscription must be written."""
        self._detached.append((name, state))
        self._notify()

    def note(self, fate: given_up_table.Fate) -> None:
        """The fate of an event must be written, with its cursor. That it was delivered is nothing new where none was
        given up: else a replay would write for each event, and push out what must be written."""
        if isinstance(fate, given_up_table.Row):
            self.any_given_up = True
        elif not self.any_given_up:
            return
        self._fates.append(fate)
        del self._fates[:-MAX_GIVEN_UP]
        self._notify()

    @property
    def stale(self) -> bool:
        """Whether there is something to write."""
        return bool(self._changed or self._detached or self._fates) or self._routed != self.end

    def take(self) -> CursorChanges:
        """The changes to write. If that fails, call `put_back`."""
        cursors = [*self._detached]
        for cursor in self._changed:
            cursor.changed = False
            if cursor.feed.attached:
                cursors.append((cursor.feed.name, cursor.state()))
        fates, self._fates = self._fates, []
        self._changed, self._detached = [], []
        begun, self._begun = self._begun, {}
        self._routed = self.end
        return CursorChanges(self.shard, self.end, cursors, fates, begun)

    def put_back(self, changes: CursorChanges) -> None:
        """These changes could not be written."""
        self._routed = -1
        self._begun = {**changes.begun, **self._begun}
        self._fates = [*changes.given_up, *self._fates][-MAX_GIVEN_UP:]
        for name, state in changes.cursors:
            cursor = self.cursors.get(name)
            if cursor is not None:
                self.mark(cursor)
            else:
                self._detached.append((name, state))


class Feeder:
    """`tails[0]` belongs to the growing shard; the others were left by a run with more workers."""

    def __init__(self, tails: Sequence[Tail], chunks: ChunkReader, loop: asyncio.AbstractEventLoop) -> None:
        self._tails = {t.shard: t for t in tails}
        self._main = tails[0]
        self._chunks = chunks
        self._loop = loop
        self._router: Router[tuple[Callable[[Event], None], LogFeed | None]] = Router()
        self.feeds: dict[str, LogFeed] = {}
        self.unrouted = 0

    # -- subscriptions ----------------------------------------------------------------------------------------------

    def attach(self, name: str, filter: Filter, offer: Callable[[Event], bool]) -> LogFeed:
        """Adds a subscription, without a cursor so far."""
        return self.add(LogFeed(name, filter, offer, self.wake))

    def add(self, feed: LogFeed) -> LogFeed:
        """Adds a subscription with a feed of its own kind, without a cursor so far."""
        self.feeds[feed.name] = feed
        return feed

    def watch(self, name: str, filter: Filter) -> None:
        """Events that match this filter are wanted by a sink that reads the files itself."""
        self._router.add(f"reader {name}", filter, (_nothing, None))

    def switch(self, tail: Tail) -> None:
        """From now on this shard grows. Events that wait in the previous one are still offered."""
        self._tails[tail.shard] = self._main = tail
        for feed in self.feeds.values():
            self._router.remove(f"feed {feed.name}")
            self.wake(self.add_cursor(feed, feed.filter, tail, tail.first))

    def add_cursor(self, feed: LogFeed, filter: Filter, tail: Tail, at: CursorState | int, routed: int = 0) -> Cursor:
        """Gives a subscription its cursor in a shard: the saved one, or a new one at a sequence."""
        if isinstance(at, int):
            cursor = Cursor(feed, tail, at)
            tail.begin(cursor)
        else:
            cursor = Cursor(feed, tail, routed if at.next is None else at.next, at.pending)
            begin = tail.begins.get(feed.name, 0)
            cursor.begin = begin if cursor.next >= begin else 0  # else it was rewound, and gets them all
        feed.cursors[tail.shard] = cursor
        tail.cursors[feed.name] = cursor
        if tail is self._main:
            self._router.add(f"feed {feed.name}", filter, (cursor.live, feed))
        return cursor

    def detach(self, name: str) -> Mapping[int, CursorState]:
        """Removes a subscription; returns its cursors by shard."""
        self._router.remove(f"reader {name}")
        self._router.remove(f"feed {name}")
        feed = self.feeds.pop(name, None)
        if feed is None:
            return {}
        feed.attached = False
        feed.end()
        cursors = {}
        for shard, cursor in feed.cursors.items():
            tail = self._tails[shard]
            del tail.cursors[name]
            cursors[shard] = cursor.state(detaching=True)
            tail.detach(name, cursors[shard])
        return cursors

    # -- events -----------------------------------------------------------------------------------------------------

    def route(self, events: Sequence[Event], size: int) -> None:
        """Offers events that were just committed, which follow the tail's end."""
        tail = self._main
        tail.ring.push(events, size)
        tail.end += len(events)
        route = self._router.route
        for event in events:
            targets = route(event)
            if not targets:
                self.unrouted += 1
            for live, _ in targets:
                live(event)
        if event_data.asked:
            event_data.release()

    async def begin(self) -> None:
        """Brings all subscriptions to the end of the log, as far as they have room. Those that are near it share one
        read."""
        for tail in list(self._tails.values()):  # damage that is found meanwhile adds one, see `switch`
            near = [c for c in tail.cursors.values() if c.floor() >= tail.end - NEAR]
            start = max(min((c.floor() for c in near), default=tail.end), tail.first)
            for cursor in near:
                cursor.behind = False
            try:
                while start < tail.end:
                    events, start = await self._chunks.read(tail.shard, start, tail.end)
                    self._route_again(events, tail.shard)
            except sqlite3.Error as e:  # each cursor retries by itself
                log.error("shard %d of the log can't be read: %s", tail.shard, e)
                for cursor in near:
                    cursor.behind = True
            for cursor in near:
                if not cursor.behind:
                    cursor.redo.clear()
                    cursor.next = tail.end
            for cursor in tail.cursors.values():
                if cursor.behind:
                    self.wake(cursor)

    def _route_again(self, events: Sequence[Event], shard: int) -> None:
        for event in events:
            for _, feed in self._router.route(event):
                if feed is not None:
                    feed.cursors[shard].again(event)

    # -- catching up ------------------------------------------------------------------------------------------------

    def wake(self, cursor: Cursor) -> None:
        """The cursor is behind and may have room: it takes the next step soon, never during an offer."""
        if not cursor.busy:
            cursor.busy = True
            self._loop.call_soon(self._step, cursor)

    def _step(self, cursor: Cursor) -> None:
        """One step: reads from the ring, starts a read whose answer is the next step, or becomes live."""
        cursor.busy = False
        tail, feed = cursor.tail, cursor.feed
        if feed.full or not feed.attached or not cursor.behind:
            return
        if cursor.redo:
            cursor.busy = True
            self._chunks.ask_for(tail.shard, cursor.redo, lambda e, following: self._read(cursor, e, following))
        elif cursor.next >= tail.end:
            cursor.behind = False
            tail.mark(cursor)
        elif cursor.next >= tail.ring.start:
            events = tail.ring.read(cursor.next, STEP)
            self._offer(cursor, events, cursor.next + len(events))
        else:
            cursor.busy = True
            start = max(cursor.next, tail.first)
            self._chunks.ask(tail.shard, start, tail.end, lambda e, following: self._read(cursor, e, following))

    def _read(self, cursor: Cursor, events: list[Event] | None, following: int) -> None:
        if events is None:
            self._loop.call_later(RETRY_S, self._step, cursor)
        else:
            self._offer(cursor, events, following)

    def _offer(self, cursor: Cursor, events: Sequence[Event], following: int) -> None:
        cursor.busy = True  # a `resume` during an offer must not start a second step
        stopped = cursor.catch_up(events) if cursor.feed.attached else None
        cursor.passed(following if stopped is None else stopped)
        self._step(cursor) if cursor.next >= cursor.tail.end and not cursor.redo else self._again(cursor)

    def _again(self, cursor: Cursor) -> None:
        cursor.busy = False
        self.wake(cursor)


def _nothing(event: Event) -> None:
    return


def _nowhere(shard: int, fate: given_up_table.Fate) -> None:
    return
