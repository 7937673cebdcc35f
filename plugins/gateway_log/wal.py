"""Keeps the write-ahead log short without making appends wait.

A checkpoint copies pages from the write-ahead log into the file and syncs both. A thread of its own does nearly all of
it, beside the appends. SQLite starts the write-ahead log again from its beginning only when all of it has been copied,
so the writer does the rest: the few pages that came meanwhile.
"""

from __future__ import annotations

import logging
import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor

from .shard import Shard

log = logging.getLogger("tidegate.log")

EVERY_BYTES = 8 * 1024 * 1024
_PAGE = 4096


class Checkpointer:
    """Told of every commit by the writer thread; starts a checkpoint after so many bytes."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._pool = ThreadPoolExecutor(1, "tidegate-log-checkpoint")
        self._running: Future[None] | None = None
        self._bytes = 0

    def wrote(self, size: int) -> None:
        """A commit wrote so many bytes of events."""
        self._bytes += size + 3 * _PAGE  # each commit also writes the pages of the tree above
        if self._running is not None:
            if self._running.done():
                self._running = None
                self._finish()
        elif self._bytes >= EVERY_BYTES:
            self._bytes = 0
            self._running = self._pool.submit(self._copy)

    def _copy(self) -> None:
        try:
            connection = sqlite3.connect(self._shard.path, isolation_level=None, timeout=10)
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            finally:
                connection.close()
        except sqlite3.Error as e:
            log.warning("the checkpoint of %s failed: %s", self._shard.path, e)

    def _finish(self) -> None:
        try:
            self._shard.checkpoint()
        except sqlite3.Error as e:
            log.warning("the checkpoint of %s failed: %s", self._shard.path, e)

    def close(self) -> None:
        """Waits for what is under way."""
        self._pool.shutdown()
