"""Feeds subscriptions from the log.

Each event is routed once, when its commit is known, to the live subscriptions that match. A subscription without room
falls behind and catches up by itself, from the ring of newest events or from the file. Everything here runs on the
event loop, so the step from behind to live can't miss an event or offer one twice: a cursor becomes live when its next
sequence is the tail's end, and from then on it is offered each event that moves the end.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Filter

from .chunks import ChunkReader
from .cursor import Cursor, CursorState, LogFeed, Tail
from .routing import Router

log = logging.getLogger("tidegate.log")

STEP = 128
"""How many events of the ring a cursor handles before others have their turn."""
NEAR = 16_384
"""At the start, subscriptions that are at most this far behind share one read."""
RETRY_S = 1.0


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
        feed = self.feeds[name] = LogFeed(name, filter, offer, self.wake)
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
