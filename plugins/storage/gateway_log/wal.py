"""Keeps the write-ahead log short without delaying appends.

A checkpoint copies pages from the write-ahead log into the file and syncs both. A thread of its own does nearly all of
it, beside the appends. SQLite restarts the write-ahead log only when all of it has been copied, so the writer copies
the rest: the few pages that came meanwhile.

A reader with an open transaction prevents the restart. The writer waits for short reads; a long one is reported in the
gateway's log.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from .disk_reserve import DiskReserve, SyncFailed
from .shard import Shard

log = logging.getLogger("tidegate.log")

_PAGE = 4096
_WAIT_S, _MOST_WAIT_S = 1.0, 30.0
"""How often the writer waits for readers while they hold the write-ahead log; less often if that does not help."""
_TELL_S = 300.0
_LOOKS = 16
"""How often, at least, the size of the write-ahead log is checked between two copies under load."""


class Checkpointer:
    """The writer thread reports every commit and deletion to it; it starts a checkpoint after enough bytes. `failed` is
    called with errors, on the writer's thread, and `too_long` when the disk hardly has space for a copy of the
    write-ahead log."""

    def __init__(
        self, shard: Shard, reserve: DiskReserve, failed: Callable[[Exception], None], too_long: Callable[[], None]
    ) -> None:
        self._shard = shard
        self._reserve = reserve
        self._failed = failed
        self._too_long = too_long
        self._wal = f"{shard.path}-wal"
        self._pool = ThreadPoolExecutor(1, "tidegate-log-checkpoint")
        self._pool.submit(int)  # starts its thread now: later there may be no memory for one
        self._running: Future[sqlite3.Error | SyncFailed | None] | None = None
        self._bytes = self._unseen = 0  # since the last copy, since the last look
        self._waited = self._told = float("-inf")
        self._wait_s = _WAIT_S

    def wrote(self, size: int) -> None:
        """This many bytes of events were committed."""
        size += 3 * _PAGE  # each commit also writes the pages of the tree above the rows
        self._bytes += size
        self._unseen += size
        if self._running is not None or self._unseen >= self._reserve.wal_bytes // _LOOKS:
            self.look()

    def look(self) -> None:
        """Something else was committed, or a lot."""
        self._unseen = 0
        size = self._size()
        if self._running is not None:
            if self._running.done():
                running, self._running = self._running, None
                self._finish(running.result())
        elif self._bytes >= self._reserve.wal_bytes or size > self._reserve.wal_bytes * 3 // 2:
            self._bytes = 0
            self._running = self._pool.submit(self._copy)
        if size > self._reserve.most_wal_bytes:
            self._wait_for_readers()
            if not self._reserve.full and not self._reserve.can_copy(size):
                self._too_long()

    def _size(self) -> int:
        # SQLite truncates the file to `journal_size_limit` at a restart: a longer file is in use
        try:
            return os.stat(self._wal).st_size
        except OSError:
            return 0

    def _copy(self) -> sqlite3.Error | SyncFailed | None:
        try:
            connection = sqlite3.connect(self._shard.path, isolation_level=None, timeout=10)
            try:
                self._shard.syncs.run(lambda: connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall())
            finally:
                connection.close()
        except (sqlite3.Error, SyncFailed) as e:
            return e
        return None

    def _finish(self, error: sqlite3.Error | SyncFailed | None) -> None:
        try:
            if error is None:
                self._shard.checkpoint()
        except (sqlite3.Error, SyncFailed) as e:
            error = e
        if error is not None:
            log.warning("the checkpoint of %s failed: %s", self._shard.path, error)
            self._failed(error)

    def _wait_for_readers(self) -> None:
        """Overlapping readers leave no moment without one: waits until all have left for a moment."""
        now = time.monotonic()
        if now - self._waited < self._wait_s:
            return
        self._waited = now
        try:
            if self._shard.restart_wal():
                self._bytes, self._wait_s, self._waited = 0, _WAIT_S, float("-inf")
                return
            self._wait_s = min(2 * self._wait_s, _MOST_WAIT_S)
        except (sqlite3.Error, SyncFailed) as e:
            self._failed(e)
            return
        if now - self._told >= _TELL_S:
            self._told = now
            log.warning(
                "%s takes %.0f MB and can't be shortened: another program keeps a read of this file open; end it"
                " (`lsof %s` names it) before the disk is full",
                self._wal,
                self._size() / 1e6,
                self._shard.path,
            )

    def close(self) -> None:
        """Waits for the checkpoint in progress."""
        self._pool.shutdown()
