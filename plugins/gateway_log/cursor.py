"""One subscription's place in one shard. Everything here happens on the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import islice

from gateway_core.abilities import Standing
from gateway_core.event import Event

from .feed import LogFeed
from .places import MOST_PENDING, Place
from .reader import place_of, position_of
from .tail import Tail

log = logging.getLogger("tidegate.log")

RETRY_S = 1.0


class Cursor:
    """Where a subscription is.

    It is *live* while it is offered each event as it is committed. Once the subscriber has no room it is *behind*: it
    remembers the next sequence to read, and catches up by itself when there is room again.

    `pending` has the positions that were offered and not acknowledged, oldest first. `redo` has sequences before
    `next` that were pending when the gateway stopped, and are to be offered again.
    """

    __slots__ = ("begin", "behind", "busy", "changed", "feed", "next", "pending", "redo", "tail")

    def __init__(self, feed: LogFeed, tail: Tail, next: int, redo: Sequence[int] = ()) -> None:
        self.feed = feed
        self.tail = tail
        self.next = next
        self.redo = list(redo)
        self.begin = 0  # the first sequence that was meant for it, where it began while this process ran
        self.pending: dict[int, None] = {}
        self.behind = True
        self.busy = False  # a step of catching up is under way
        self.changed = False

    # -- offers -----------------------------------------------------------------------------------------------------

    def live(self, event: Event) -> None:
        """Offers an event that has just been committed, and that the filter matches."""
        if not self.behind and not self._offer(event):
            self.behind = True
            self.next = place_of(event.position)[1]

    def again(self, event: Event) -> None:
        """Offers an event that the filter matches, read at the start, where it has not been dealt with."""
        sequence = place_of(event.position)[1]
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
        # before the offer: the subscriber may acknowledge inside of it
        self.pending[event.position] = None
        try:
            if feed.offer(event):
                return True
        except Exception:
            log.exception("subscription %s failed to take an event", feed.name)
            asyncio.get_running_loop().call_later(RETRY_S, feed.resume)  # nobody else would
        del self.pending[event.position]
        feed.full = True
        return False

    def catch_up(self, events: Sequence[Event]) -> int | None:
        """Offers those of these events that the filter matches. Returns the sequence of the first that found no room,
        None where all did."""
        matches = self.feed.matches
        for event in events:
            try:
                wanted = matches(event)
            except Exception as e:  # a filter that raises counts as one that matches
                self.feed.errors.note(f"{self.feed.name} gets the event all the same", e)
                wanted = True
            if wanted and not self._offer(event):
                return place_of(event.position)[1]
        return None

    def passed(self, sequence: int) -> None:
        """All before this sequence has been offered."""
        if not self.changed:
            self.tail.mark(self)
        if self.redo:
            self.redo = [s for s in self.redo if s >= sequence]
        self.next = max(self.next, sequence)

    # -- where it is ------------------------------------------------------------------------------------------------

    def place(self, *, parting: bool = False) -> Place:
        """What is to be written. `parting`: the cursor won't keep up with the tail any more."""
        waiting = self._waiting(MOST_PENDING + 1)
        if len(waiting) > MOST_PENDING:
            return Place(waiting[-1], tuple(waiting[:-1]))
        return Place(self.next if self.behind else self.tail.end if parting else None, tuple(waiting))

    def floor(self) -> int:
        """The first sequence that is still needed."""
        waiting = self._waiting(1)
        return waiting[0] if waiting else self.next if self.behind else self.tail.end

    def standing(self, sequence: int) -> Standing:
        """Where an event is."""
        if position_of(self.tail.shard, sequence) in self.pending or sequence in self.redo:
            return "pending"
        if sequence < self.begin:
            return "before"
        return "unread" if sequence >= (self.next if self.behind else self.tail.end) else "passed"

    def lag(self) -> int:
        """Events not dealt with; of those not read yet, also what the filter will drop."""
        unread = self.tail.end - max(self.next, self.tail.first) if self.behind else 0
        return len(self.pending) + len(self.redo) + max(unread, 0)

    def _waiting(self, count: int) -> list[int]:
        base = position_of(self.tail.shard, 0)
        waiting = [p - base for p in islice(self.pending, count)]
        if self.redo:  # some of `redo` were offered already and are pending; they lie between
            waiting = sorted({*waiting, *self.redo})[:count]
        return waiting
