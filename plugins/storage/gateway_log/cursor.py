"""Subscriptions in the log: their cursors, the tails of the shards that they follow, and how cursors are stored.

Subscriptions, cursors and tails live on the event loop. Table `feeds` of a shard's file has one row for each
subscription: all events before `place` are processed, except the sequences in `pending`. `place` is NULL if the
subscription has kept up: then it stands for the `routed` value of table `meta`. `routed` and the rows that change with
it are written in one transaction, so an idle subscription needs no write.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from gateway_core.contract.capabilities import DeliveryState, GivenUp
from gateway_core.contract.component_errors import Errors
from gateway_core.contract.event import PARTITION_BITS, Event, position_of, split_position
from gateway_core.contract.interfaces import Filter

from . import given_up as given_up_table

log = logging.getLogger("tidegate.log")

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

    __slots__ = ("attached", "cursors", "errors", "filter", "full", "matches", "name", "offer", "wake")

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
        self.errors = Errors("a filter")

    def ack(self, position: int) -> None:
        """The event at this position has been processed."""
        cursor = self.cursors[position >> PARTITION_BITS]
        cursor.pending.pop(position, None)
        if not cursor.changed:
            cursor.tail.mark(cursor)

    def give_up(self, position: int, given_up: GivenUp) -> None:
        """See `gateway_core.contract.capabilities.KeepsGivenUp`."""
        shard, sequence = split_position(position)
        if (cursor := self.cursors.get(shard)) is not None:
            cursor.tail.give_up(given_up_table.row(sequence, self.name, given_up))

    def resume(self) -> None:
        """There is room again."""
        self.full = False
        for cursor in self.cursors.values():
            if cursor.behind:
                self.wake(cursor)

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
    that were pending when the gateway stopped and must be offered again.
    """

    __slots__ = ("begin", "behind", "busy", "changed", "feed", "next", "pending", "redo", "tail")

    def __init__(self, feed: LogFeed, tail: Tail, next: int, redo: Sequence[int] = ()) -> None:
        self.feed = feed
        self.tail = tail
        self.next = next
        self.redo = list(redo)
        self.begin = 0  # its first sequence, if it is known that there were others before
        self.pending: dict[int, None] = {}
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
                return split_position(event.position)[1]
        return None

    def passed(self, sequence: int) -> None:
        """All events before this sequence have been offered."""
        if not self.changed:
            self.tail.mark(self)
        if self.redo:
            self.redo = [s for s in self.redo if s >= sequence]
        self.next = max(self.next, sequence)

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
        self.end = end
        self.ring = Ring(end)
        self.cursors: dict[str, Cursor] = {}
        self._changed: list[Cursor] = []
        self._detached: list[tuple[str, CursorState]] = []
        self._given_up: list[given_up_table.Row] = []
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

    def give_up(self, row: given_up_table.Row) -> None:
        """The fate of an event must be written, with its cursor."""
        self._given_up.append(row)
        del self._given_up[:-MAX_GIVEN_UP]
        self._notify()

    @property
    def stale(self) -> bool:
        """Whether there is something to write."""
        return bool(self._changed or self._detached or self._given_up) or self._routed != self.end

    def take(self) -> CursorChanges:
        """The changes to write. If that fails, call `put_back`."""
        cursors = [*self._detached]
        for cursor in self._changed:
            cursor.changed = False
            if cursor.feed.attached:
                cursors.append((cursor.feed.name, cursor.state()))
        given_up, self._given_up = self._given_up, []
        self._changed, self._detached = [], []
        begun, self._begun = self._begun, {}
        self._routed = self.end
        return CursorChanges(self.shard, self.end, cursors, given_up, begun)

    def put_back(self, changes: CursorChanges) -> None:
        """These changes could not be written."""
        self._routed = -1
        self._begun = {**changes.begun, **self._begun}
        self._given_up = [*changes.given_up, *self._given_up][-MAX_GIVEN_UP:]
        for name, state in changes.cursors:
            cursor = self.cursors.get(name)
            if cursor is not None:
                self.mark(cursor)
            else:
                self._detached.append((name, state))


# -- in a shard's file -----------------------------------------------------------------------------------------------


class CursorState(NamedTuple):
    """The state of a cursor: `next` is None if the subscription has kept up."""

    next: int | None
    pending: tuple[int, ...] = ()


_positions = msgspec.json.Decoder(list[int]).decode


class CursorChanges(NamedTuple):
    """The changes of one shard to write: its routed end, the cursors that changed, which events were given up, and
    where new subscriptions began."""

    shard: int
    routed: int
    cursors: Sequence[tuple[str, CursorState]]
    given_up: Sequence[given_up_table.Row] = ()
    begun: Mapping[str, int] = {}


def load_cursors(connection: sqlite3.Connection) -> tuple[int, dict[str, CursorState]]:
    """The routed end and all cursors. Raises `sqlite3.Error`, and `ValueError` for a damaged row."""
    found = connection.execute("SELECT value FROM meta WHERE name = 'routed'").fetchone()
    routed = found[0] if found else 1
    if not isinstance(routed, int):
        raise ValueError(f"the routed end is {routed!r}")
    cursors = {}
    for name, place, pending in connection.execute("SELECT name, place, pending FROM feeds"):
        # damage that SQLite does not notice leaves columns of other types, or none
        if not isinstance(name, str) or not isinstance(place, int | None) or not isinstance(pending, str | None):
            raise ValueError(f"a cursor is {(name, place, pending)!r}")
        cursors[name] = CursorState(place, tuple(_positions(pending)) if pending else ())
    return routed, cursors


def rewind_cursors(cursors: dict[str, CursorState], routed: int, first: int, following: int) -> list[str]:
    """Resets cursors with impossible values to the first event. Returns the names of their subscriptions."""
    wrong = []
    for name, state in cursors.items():
        ends = (*state.pending, state.next if state.next is not None else routed)
        if not all(1 <= end <= following for end in ends):
            cursors[name] = CursorState(first)
            wrong.append(name)
    return wrong


def saving(changes: CursorChanges | None) -> str:
    """A script that begins a transaction and writes the changes in it. `executescript` gives up Python's lock once for
    each statement, `execute` five times, and each time the writer may wait for the event loop. Names are in
    hexadecimal, so nothing in them ends the literal."""
    if changes is None:
        return "BEGIN IMMEDIATE"
    script = f"BEGIN IMMEDIATE; INSERT OR REPLACE INTO meta VALUES ('routed', {changes.routed:d});"
    if changes.cursors:
        rows = [_row(name, state) for name, state in changes.cursors]
        script += "INSERT OR REPLACE INTO feeds VALUES " + ",".join(rows)
    return script


def _row(name: str, state: CursorState) -> str:
    place = "NULL" if state.next is None else f"{state.next:d}"
    pending = f"'{msgspec.json.encode(state.pending).decode()}'" if state.pending else "NULL"
    return f"(CAST(x'{name.encode().hex()}' AS TEXT),{place},{pending})"
