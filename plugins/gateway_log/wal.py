"""Keeps the write-ahead log short without making appends wait.

A checkpoint copies pages from the write-ahead log into the file and syncs both. A thread of its own does nearly all of
it, beside the appends. SQLite starts the write-ahead log again from its beginning only when all of it has been copied,
so the writer does the rest: the few pages that came meanwhile.

A reader that keeps a transaction open keeps the write-ahead log from starting again. One whose reads are short is
waited for; one that goes on for long is told of in the gateway's log.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from .room import Room
from .shard import Shard

log = logging.getLogger("tidegate.log")

_PAGE = 4096
_WAIT_S, _MOST_WAIT_S = 1.0, 30.0
"""How often the writer waits for readers, while they hold the write-ahead log; less often if that is of no use."""
_TELL_S = 300.0


class Checkpointer:
    """Told by the writer thread of every commit and deletion; starts a checkpoint after so many bytes. `failed` is
    called, on the writer's thread, with what went wrong, `too_long` when the disk has hardly room for a copy of the
    write-ahead log."""

    def __init__(
        self, shard: Shard, room: Room, failed: Callable[[sqlite3.Error], None], too_long: Callable[[], None]
    ) -> None:
        self._shard = shard
        self._room = room
        self._failed = failed
        self._too_long = too_long
        self._wal = f"{shard.path}-wal"
        self._pool = ThreadPoolExecutor(1, "tidegate-log-checkpoint")
        self._running: Future[sqlite3.Error | None] | None = None
        self._bytes = 0
        self._waited = self._told = float("-inf")
        self._wait_s = _WAIT_S

    def wrote(self, size: int) -> None:
        """So many bytes of events were committed."""
        self._bytes += size + 3 * _PAGE  # each commit also writes the pages of the tree above
        self.look()

    def look(self) -> None:
        """Something else was committed."""
        if self._running is not None:
            if self._running.done():
                running, self._running = self._running, None
                self._finish(running.result())
        elif self._bytes >= self._room.wal_bytes or self._size() > self._room.wal_bytes * 3 // 2:
            self._bytes = 0
            self._running = self._pool.submit(self._copy)
        if (size := self._size()) > self._room.most_wal_bytes:
            self._hold_up()
            if not self._room.full and not self._room.can_copy(size):
                self._too_long()

    def _size(self) -> int:
        # SQLite cuts the file to `journal_size_limit` when it begins anew: a longer one is in use
        try:
            return os.stat(self._wal).st_size
        except OSError:
            return 0

    def _copy(self) -> sqlite3.Error | None:
        try:
            connection = sqlite3.connect(self._shard.path, isolation_level=None, timeout=10)
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            finally:
                connection.close()
        except sqlite3.Error as e:
            return e
        return None

    def _finish(self, error: sqlite3.Error | None) -> None:
        try:
            if error is None:
                self._shard.checkpoint()
        except sqlite3.Error as e:
            error = e
        if error is not None:
            log.warning("the checkpoint of %s failed: %s", self._shard.path, error)
            self._failed(error)

    def _hold_up(self) -> None:
        """Readers that take turns leave no moment without one: waits until all have left for a moment."""
        now = time.monotonic()
        if now - self._waited < self._wait_s:
            return
        self._waited = now
        try:
            if self._shard.fold():
                self._bytes, self._wait_s = 0, _WAIT_S
                return
            self._wait_s = min(2 * self._wait_s, _MOST_WAIT_S)
        except sqlite3.Error as e:
            self._failed(e)
            return
        if now - self._told >= _TELL_S:
            self._told = now
            log.warning(
                "%s takes %.0f MB and can't be shortened: another program has kept a read of this file open all the"
                " time; end it (`lsof %s` names it) before the disk is full",
                *(self._wal, self._size() / 1e6, self._shard.path),
            )

    def close(self) -> None:
        """Waits for what is under way."""
        self._pool.shutdown()
