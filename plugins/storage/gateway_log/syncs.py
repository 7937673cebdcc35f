"""The syncs of a shard's write-ahead log."""

from __future__ import annotations

import errno
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from .disk_reserve import SyncFailed, sync_failed

T = TypeVar("T")


class Syncs:
    """Several threads sync the write-ahead log: one after another, and none after one that `failed`. The system reports
    a failure once, and the next sync as a success, though the data is gone."""

    def __init__(self) -> None:
        self.failed = False
        self._lock = Lock()

    def run(self, work: Callable[[], T], most_s: float = -1) -> T | None:
        """Does work that syncs, and returns its result; None if other work took longer than `most_s` seconds (-1: waits
        for it). Raises `SyncFailed` after a sync that failed, and what the work raises."""
        if not self._lock.acquire(timeout=most_s):
            return None
        try:
            self.expect()
            return work()
        except Exception as e:
            self.failed = self.failed or sync_failed(e)
            raise
        finally:
            self._lock.release()

    def expect(self) -> None:
        """Raises `SyncFailed` after a sync that failed."""
        if self.failed:
            raise SyncFailed(errno.EIO, "an earlier sync failed")
