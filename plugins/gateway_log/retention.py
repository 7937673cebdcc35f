"""Deletes old events: on the writer's thread, a bounded number at a time, so that appends go in between.

The file is made with `auto_vacuum = INCREMENTAL`: freed pages are used again by events to come, and those that are many
more than that needs are given back to the file system, some at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gateway_core.clock import Clock, Timer

from .config import RetentionConfig
from .readers import Floors
from .room import Room
from .shard import Shard
from .tail import Tail

log = logging.getLogger("tidegate.log")

SPARE_PAGES = 4096
_RELIEF_S = 0.25
_RELIEF_PAGES = 128
_RELIEF_BYTES = 512 * 1024
"""Steps on a full disk: each must fit into what the ballast kept."""


class Retention:
    """`put(job)`, from any thread, runs a job on the writer's thread, `tell(call, *args)` a call on the event loop."""

    def __init__(
        self,
        config: RetentionConfig,
        interval_s: float,
        part: int,
        shards: Sequence[Shard],
        room: Room,
        tails: Sequence[Tail],
        folder: Path,
        clock: Clock,
        put: Callable[[Callable[[], Any]], None],
        tell: Callable[..., Any],
    ) -> None:
        self._keep_unread = config.keep_unread
        self._max_age_ns = None if config.max_age_s is None else int(config.max_age_s * 1e9)
        self._max_bytes = None if config.max_bytes is None else config.max_bytes // part
        self._interval_s = interval_s
        self._room = room
        self._pairs = list(zip(shards, tails, strict=True))
        self._floors = Floors(folder)
        self._clock = clock
        self._put = put
        self._tell = tell
        self._timer: Timer | None = None

    def add(self, shard: Shard, tail: Tail) -> None:
        """One more shard."""
        self._pairs.append((shard, tail))

    def start(self) -> None:
        """Begins to look at the limits."""
        if self._max_age_ns is not None or self._max_bytes is not None:
            self._timer = self._clock.call_later(self._interval_s, self._look)

    def stop(self) -> None:
        """Begins no more deletions."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def relieve(self) -> None:
        """The disk is full: makes room of what is not needed, however young it is, and has events taken again when
        there is enough. Call it again while it is full."""
        floors = [self._floor(tail, keep_unread=True) for _, tail in self._pairs]
        self._put(lambda: self._relieve(floors))

    def _relieve(self, floors: Sequence[int]) -> None:
        """On the writer's thread."""
        until = time.monotonic() + _RELIEF_S
        for (shard, tail), floor in zip(self._pairs, floors, strict=True):
            before = self._read_by_all(shard, floor)
            while shard.fold() and self._room.missing() > 0 and time.monotonic() < until:
                first = shard.first
                if not shard.shrink(0, _RELIEF_PAGES):
                    shard.delete_some(before, 0, self._room.missing(), _RELIEF_BYTES)
                    if shard.first == first:
                        break
                    self._tell(self._deleted, tail, shard.first)
        self._room.regain()

    def _floor(self, tail: Tail, *, keep_unread: bool) -> int:
        before = tail.end
        return min((c.floor() for c in tail.cursors.values()), default=before) if keep_unread else before

    def _read_by_all(self, shard: Shard, before: int) -> int:
        """The sequence, at most `before`, before which no reader needs anything."""
        try:
            return min(before, self._floors.floor(shard.number, before))
        except (OSError, ValueError) as e:
            log.error("nothing is deleted from the log: the place of a reader can't be read: %s", e)
            return shard.first

    def _look(self) -> None:
        for shard, tail in self._pairs:
            if tail.first < tail.end:
                self._begin(shard, tail)
        self.start()

    def _begin(self, shard: Shard, tail: Tail) -> None:
        before = self._floor(tail, keep_unread=self._keep_unread)
        self._put(lambda: self._delete(shard, tail, before))

    def _delete(self, shard: Shard, tail: Tail, before: int) -> None:
        """On the writer's thread: one part, then the next behind what waits meanwhile."""
        if self._keep_unread:
            before = self._read_by_all(shard, before)
        older_than = 0 if self._max_age_ns is None else self._clock.now_ns() - self._max_age_ns
        excess = 0 if self._max_bytes is None else max(0, shard.used_bytes() - self._share(shard))
        more = shard.delete_some(before, older_than, excess)
        self._tell(self._deleted, tail, shard.first)
        if more:
            self._put(lambda: self._delete(shard, tail, before))
        else:
            shard.shrink(SPARE_PAGES)

    def _share(self, shard: Shard) -> int:
        """What the limit leaves for this shard, when the others keep what they have."""
        assert self._max_bytes is not None
        return max(0, self._max_bytes - sum(s.used_bytes() for s, _ in self._pairs if s is not shard))

    def _deleted(self, tail: Tail, first: int) -> None:
        tail.first = max(tail.first, first)
