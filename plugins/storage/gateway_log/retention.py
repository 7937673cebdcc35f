"""Deletes old events on the writer's thread, a limited number at a time, with appends in between.

The file uses `auto_vacuum = INCREMENTAL`: freed pages are reused by new events, and pages far beyond that need are
returned to the file system, some at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gateway_core.contract.clock import Clock, Timer

from .config import RetentionConfig
from .departures import Departures
from .disk_reserve import DiskReserve
from .feeder import Tail
from .readers import Floors
from .shard import Shard

log = logging.getLogger("tidegate.log")

SPARE_PAGES = 4096
JUMP_S = 60.0
HOLD_S = 3600.0
"""How long ages are not trusted after the clock has jumped forward. A laptop that slept looks the same."""
_RELIEF_S = 0.25
_RELIEF_PAGES = 128
_RELIEF_BYTES = 512 * 1024
"""The size of a step on a full disk: each must fit into the ballast's space."""


class Retention:
    """`put(job)`, from any thread, runs a job on the writer's thread; `tell(call, *args)` runs a call on the event
    loop."""

    def __init__(
        self,
        config: RetentionConfig,
        interval_s: float,
        part: int,
        shards: Sequence[Shard],
        reserve: DiskReserve,
        tails: Sequence[Tail],
        folder: Path,
        departures: Departures,
        clock: Clock,
        put: Callable[[Callable[[], Any]], None],
        tell: Callable[..., Any],
    ) -> None:
        self._keep_unread = config.keep_unread
        self._max_age_ns = None if config.max_age_s is None else int(config.max_age_s * 1e9)
        self._max_bytes = None if config.max_bytes is None else config.max_bytes // part
        self._interval_s = interval_s
        self._reserve = reserve
        self._pairs = list(zip(shards, tails, strict=True))
        self._floors = Floors(folder)
        self._departures = departures
        self._clock = clock
        self._put = put
        self._tell = tell
        self._timer: Timer | None = None
        self._time = clock.now_ns(), clock.monotonic()
        self._ages_from = 0.0  # by the monotonic clock

    def add(self, shard: Shard, tail: Tail) -> None:
        """Adds a shard."""
        self._pairs.append((shard, tail))

    def start(self) -> None:
        """Starts to check the limits."""
        if self._max_age_ns is not None or self._max_bytes is not None:
            self._timer = self._clock.call_later(self._interval_s, self._look)

    def stop(self) -> None:
        """Starts no more deletions."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def relieve(self) -> None:
        """The disk is full: deletes events that are not needed, whatever their age, and accepts events again when there
        is enough room. Call it repeatedly while the disk is full."""
        pairs = [] if self._departures.reloading else self._pairs
        wanted = [(shard, tail, self._floor(tail, keep_unread=True)) for shard, tail in pairs]
        self._put(lambda: self._relieve(wanted))

    def _relieve(self, wanted: Sequence[tuple[Shard, Tail, int]]) -> None:
        """On the writer's thread."""
        until = time.monotonic() + _RELIEF_S
        for shard, tail, floor in wanted:
            before = self._read_by_all(shard, floor)
            while shard.restart_wal() and self._reserve.missing() > 0 and time.monotonic() < until:
                first = shard.first
                if not shard.shrink(0, _RELIEF_PAGES):
                    shard.delete_some(before, 0, self._reserve.missing(), _RELIEF_BYTES)
                    if shard.first == first:
                        break
                    self._tell(self._deleted, tail, shard.first, shard.oldest_ns())
        self._reserve.regain()

    def _floor(self, tail: Tail, *, keep_unread: bool) -> int:
        if not keep_unread:
            return tail.end
        floors = self._departures.floors(tail.shard)
        return min([*floors, *(c.floor() for c in tail.cursors.values())], default=tail.end)

    def _read_by_all(self, shard: Shard, before: int) -> int:
        """The sequence, at most `before`, before which no reader needs anything."""
        try:
            return min(before, self._floors.floor(shard.number, before))
        except (OSError, ValueError) as e:
            log.error("nothing is deleted from the log: can't read the offsets of a reader: %s", e)
            return shard.first

    def _look(self) -> None:
        self._check_clock()
        for shard, tail in self._pairs:
            if tail.first < tail.end and not self._departures.reloading:
                self._begin(shard, tail)
        self.start()

    def _check_clock(self) -> None:
        """A clock that was set forward makes all events look old until it is corrected."""
        before, self._time = self._time, (self._clock.now_ns(), self._clock.monotonic())
        jump_s = (self._time[0] - before[0]) / 1e9 - (self._time[1] - before[1])
        if jump_s > JUMP_S and self._max_age_ns is not None:
            self._ages_from = self._time[1] + HOLD_S
            log.warning(
                "this machine's clock jumped forward by %.0f s: for %.0f minutes, no event is deleted for its age",
                jump_s,
                HOLD_S / 60,
            )

    def _older_than(self) -> int:
        """Events received before this time (ns) are old."""
        if self._max_age_ns is None or self._clock.monotonic() < self._ages_from:
            return 0
        return self._clock.now_ns() - self._max_age_ns

    def _begin(self, shard: Shard, tail: Tail) -> None:
        before = self._floor(tail, keep_unread=self._keep_unread)
        self._put(lambda: self._delete(shard, tail, before))

    def _delete(self, shard: Shard, tail: Tail, before: int) -> None:
        """On the writer's thread: deletes one part, then queues the next behind waiting writes."""
        if self._keep_unread:
            before = self._read_by_all(shard, before)
        excess = 0 if self._max_bytes is None else max(0, shard.used_bytes() - self._share(shard))
        more = shard.delete_some(before, self._older_than(), excess)
        self._tell(self._deleted, tail, shard.first, 0 if more else shard.oldest_ns())
        if more:
            self._put(lambda: self._delete(shard, tail, before))
        else:
            shard.shrink(SPARE_PAGES)

    def _share(self, shard: Shard) -> int:
        """The limit for this shard while the others keep their size."""
        assert self._max_bytes is not None
        return max(0, self._max_bytes - sum(s.used_bytes() for s, _ in self._pairs if s is not shard))

    def _deleted(self, tail: Tail, first: int, oldest_ns: int) -> None:
        tail.first = max(tail.first, first)
        tail.oldest_ns = max(tail.oldest_ns, oldest_ns) if tail.first < tail.end else 0
