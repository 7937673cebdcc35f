"""Keeps room on the disk, so that a gateway can leave a full one by itself.

Deleting events, moving cursors and copying the write-ahead log into its file all need some room first. A file of zeros
beside each shard, the ballast, keeps that room: events are taken only while it is there. When the disk is full the
ballast is removed, events are refused, and what it made free serves deliveries and deletions until there is room for
it again.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from gateway_core.errors import StorageError

MIB = 1024 * 1024
MOST_BALLAST = 20 * MIB
LEAST_BALLAST = MIB
PART_OF_DISK = 8
"""The ballast is at most this part of the file system, for all workers of a broker together."""
RETRY_AFTER_S = 5.0
_BLOCK = bytes(MIB)
_UNSYNCED = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}
_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_TRUNCATE}
"""No room; a quota and a limit on the size of files come as the second."""


class DiskFull(StorageError):
    """There is no room for events."""


def sync_failed(error: BaseException) -> bool:
    """Whether the disk failed to take what was written. Trying again proves nothing: the system may have forgotten what
    it could not write, and call the next attempt a success."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) in _UNSYNCED


def is_full(error: BaseException) -> bool:
    """Whether this error means that the disk has no room."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) in _FULL


class Room:
    """The room of one shard's disk. `full` is True while events can't be taken. After `begin`, only the writer's thread
    changes it."""

    def __init__(self, folder: Path, shard: int, workers: int) -> None:
        self._folder = folder
        self._workers = workers
        self.path = folder / f"shard-{shard:03d}.ballast"
        disk = os.statvfs(folder)
        self.size = max(LEAST_BALLAST, min(MOST_BALLAST, disk.f_blocks * disk.f_frsize // PART_OF_DISK // workers))
        self.wal_bytes = self.size * 2 // 5
        """From this size on the write-ahead log is copied into its file."""
        self.most_wal_bytes = self.size * 4 // 5
        """Beyond this size the writer waits for that: the ballast must hold a copy of the write-ahead log."""
        self.full = False

    def begin(self) -> None:
        """Makes the ballast. Where there is no room, gives up what is there of it."""
        held = self._held() >= self.size
        if not (self._free() >= LEAST_BALLAST if held else self._hold(self.size)):
            self.release()

    def release(self) -> bool:
        """Frees the ballast: no more events are taken. Returns whether there was one."""
        self.full = True
        held = self._held() > 0
        with suppress(OSError):
            os.truncate(self.path, 0)  # some file systems need room to remove a file
            self.path.unlink()
        return held

    def keep(self) -> None:
        """At the end, keeps a little for the next start: what SQLite removes may be taken by others."""
        if self.full:
            self._hold(LEAST_BALLAST)

    def missing(self) -> int:
        """Bytes to be freed until there is ample room."""
        return 3 * self.size - self._free() - self._held()

    def can_copy(self, wal_bytes: int) -> bool:
        """Whether the file can grow by all that a write-ahead log of this size may hold, if need be in the place of the
        ballast."""
        return wal_bytes < self._free() // self._workers + self.size // 2

    def regain(self) -> bool:
        """Makes the ballast again where there is room for it; gives whether events can be taken."""
        if self.full and self._free() + self._held() >= 2 * self.size and self._hold(self.size):
            self.full = False
        return not self.full

    def error(self) -> DiskFull:
        """Why events are refused."""
        return DiskFull(f"the disk of {self._folder} is full: free some space", RETRY_AFTER_S)

    def _free(self) -> int:
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize

    def _held(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _hold(self, size: int) -> bool:
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            self._allocate(descriptor, size)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
                self.path.unlink()
            return False
        finally:
            os.close(descriptor)
        return True

    @staticmethod
    def _allocate(descriptor: int, left: int) -> None:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, left)
            return
        while left > 0:
            left -= os.write(descriptor, _BLOCK[:left])
        os.fsync(descriptor)
