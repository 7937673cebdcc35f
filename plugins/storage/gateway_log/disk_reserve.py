"""Reserves space on the disk, so that a gateway can recover from a full one by itself.

Deleting events, moving cursors and copying the write-ahead log into its file all need some space first. A file of zeros
beside each shard, the ballast, reserves it: events are accepted only while it exists. When the disk is full, the
ballast is removed and events are refused; the freed space serves deliveries and deletions until there is room for the
ballast again.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from gateway_core.contract.errors import StorageError
from gateway_core.contract.private_files import sync_directory

MIB = 1024 * 1024
MAX_BALLAST = 20 * MIB
MIN_BALLAST = MIB
DISK_DIVISOR = 8
"""The ballast is at most this fraction of the file system, for all workers of a broker together."""
RETRY_AFTER_S = 5.0
_BLOCK = bytes(MIB)
_UNSYNCED = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}
_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_TRUNCATE}
"""No space; a quota and a limit on file sizes are reported as the second."""


class DiskFull(StorageError):
    """There is no space for events."""


class SyncFailed(OSError):
    """The disk failed to store written data."""


def sync_failed(error: BaseException | None) -> bool:
    """Whether the disk failed to store written data. A retry proves nothing: the system may have dropped the data that
    it could not write, and report the next attempt as a success."""
    if isinstance(error, SyncFailed):
        return True
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) in _UNSYNCED


def is_full(error: BaseException) -> bool:
    """Whether this error means that the disk is full."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) in _FULL


class DiskReserve:
    """The reserved space of one shard. `full` is True while events can't be accepted. After `begin`, only the writer's
    thread changes it."""

    def __init__(self, folder: Path, shard: int, workers: int) -> None:
        self._folder = folder
        self._workers = workers
        self.path = folder / f"shard-{shard:03d}.ballast"
        disk = os.statvfs(folder)
        self.size = max(MIN_BALLAST, min(MAX_BALLAST, disk.f_blocks * disk.f_frsize // DISK_DIVISOR // workers))
        self.wal_bytes = self.size * 2 // 5
        """From this size on, the write-ahead log is copied into its file."""
        self.most_wal_bytes = self.size * 4 // 5
        """Beyond this size, the writer waits for the copy: the ballast must have space for a copy of the write-ahead
        log."""
        self.most_commit_bytes = self.size // 5
        """The most bytes of events in one commit of several appends: with them, a write-ahead log of `most_wal_bytes`
        still fits into the ballast."""
        self.full = False
        self._wanted = 0

    def begin(self) -> None:
        """Creates the ballast, unless that leaves no space to open the log: then removes it."""
        held = self._held() >= self.size or self._hold(self.size)
        if not held or self._free() < MIN_BALLAST:
            self.release()

    def release(self) -> bool:
        """Removes the ballast: no more events are accepted. Returns whether there was one."""
        self.full = True
        held = self._held() > 0
        with suppress(OSError):
            os.truncate(self.path, 0)  # some file systems need space to remove a file
            self.path.unlink()
        return held

    def keep(self) -> None:
        """At the end, reserves a little for the next start: other programs may take the space that SQLite frees."""
        if self.full:
            self._hold(MIN_BALLAST)

    def missing(self) -> int:
        """The bytes to be freed until there is enough space."""
        return 3 * self.size + self._wanted - self._free() - self._held()

    def can_take(self, size: int) -> bool:
        """Whether one append of this size, larger than a commit should be, fits on the disk twice: in the write-ahead
        log and in the file. If not, as much more is `missing`."""
        fits = 2 * size <= self._free() // self._workers
        self._wanted = 0 if fits else 2 * size * self._workers
        return fits

    def can_copy(self, wal_bytes: int) -> bool:
        """Whether the file can grow by a write-ahead log of this size, if necessary in place of the ballast."""
        return wal_bytes < self._free() // self._workers + self.size // 2

    def regain(self) -> bool:
        """Creates the ballast again if there is space for it; returns whether events can be accepted."""
        if self.full and self._free() + self._held() >= 2 * self.size and self._hold(self.size):
            self.full = False
        self._wanted = 0
        return not self.full

    def error(self) -> DiskFull:
        """Why events are refused. Senders read it, so it names no folder."""
        return DiskFull("the gateway's disk is full: free some space", RETRY_AFTER_S)

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
            sync_directory(self._folder)  # after a power failure, a start on a full disk needs it
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
        else:
            while left > 0:
                left -= os.write(descriptor, _BLOCK[:left])
        os.fsync(descriptor)
