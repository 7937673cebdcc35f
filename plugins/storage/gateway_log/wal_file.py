"""The write-ahead log of a shard as a file, without SQLite."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from gateway_core.contract.private_files import no_room, write_all

from .disk_reserve import SyncFailed

_PART = 1024 * 1024


def wal_file(shard: Path) -> Path:
    """The write-ahead log of a shard's file."""
    return shard.with_name(f"{shard.name}-wal")


def sync_wal(shard: Path) -> None:
    """Makes it durable. Raises `SyncFailed`."""
    with suppress(FileNotFoundError), wal_file(shard).open("rb") as f:
        _sync(f.fileno())


def store_again(shard: Path) -> None:
    """Writes it over itself, and syncs it. After a sync that failed, the system may drop what it could not write from
    the disk and still show it to every reader; nothing but another write brings it to the disk. Raises `OSError`."""
    with suppress(FileNotFoundError), wal_file(shard).open("r+b", buffering=0) as f:
        try:
            while part := f.read(_PART):
                f.seek(-len(part), os.SEEK_CUR)
                write_all(f.fileno(), part)
        except OSError as e:
            if not no_room(e):  # of a file system that never writes in place: deliveries must continue
                raise
        _sync(f.fileno())


def has_wal(shard: Path) -> bool:
    """Whether there is anything in it."""
    return file_bytes(shard) > shard.stat().st_size


def is_missing(shard: Path) -> bool:
    """Whether there is none, though the file says that it has one. A file that was restored from a backup does not."""
    if wal_file(shard).exists():
        return False
    with shard.open("rb") as f:
        return f.read(20)[18:] == b"\2\2"


def file_bytes(shard: Path) -> int:
    """The bytes that a shard takes on disk."""
    total = 0
    for suffix in ("", "-wal"):
        with suppress(OSError):
            total += os.stat(f"{shard}{suffix}").st_size
    return total


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as e:
        raise SyncFailed(e.errno, e.strerror) from e
