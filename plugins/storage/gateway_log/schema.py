"""Opens a shard's file for writing, and creates a new one. `reader.py` describes its contents."""

from __future__ import annotations

import logging
import os
import sqlite3
from pathlib import Path
from typing import Literal

from gateway_core.contract.errors import StartError

from .disk_reserve import is_full
from .reader import FORMAT, GONE, GONE_NS, KEYED, bounds_of
from .rows import damaged, is_damage
from .too_new import refuse_too_new

WAL_BYTES = 8 * 1024 * 1024
BUSY_MS = 10_000

log = logging.getLogger("tidegate.log")

_TABLES = """
CREATE TABLE IF NOT EXISTS events (
  sequence INTEGER PRIMARY KEY,
  received_ns INTEGER NOT NULL,
  flags INTEGER NOT NULL,
  key BLOB,
  attributes TEXT NOT NULL,
  data BLOB,
  checksum INTEGER
);
CREATE TABLE IF NOT EXISTS feeds (name TEXT PRIMARY KEY, place INTEGER, pending TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
"""


def open_shard(path: Path, sync: Literal["full", "normal"] = "full", wal_bytes: int = WAL_BYTES) -> sqlite3.Connection:
    """A connection for the writer, in autocommit mode, for one thread at a time. `wal_bytes` is the size that the
    write-ahead log keeps on disk when it restarts. Raises `StartError`."""
    try:
        # SQLite would create it readable for everyone; its other files inherit the permissions
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512)
    except (sqlite3.Error, OSError) as e:
        raise StartError(f"log: {path} can't be opened: {e}") from e
    try:
        try:
            _prepare(connection, path, sync, wal_bytes)
        except UnicodeDecodeError as e:
            raise damaged("malformed database schema") from e
    except sqlite3.Error as e:
        connection.close()
        if is_damage(e):
            raise
        raise unusable(path, e) from e
    except StartError:
        connection.close()
        raise
    return connection


def unusable(path: Path, error: sqlite3.Error) -> StartError:
    """Why a shard's file can't be used."""
    if is_full(error):
        return StartError(f"log: {path} can't be used, as the disk seems to be full: free some space ({error})")
    return StartError(f"log: {path} can't be used: {error}")


def _prepare(connection: sqlite3.Connection, path: Path, sync: str, wal_bytes: int) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    refuse_too_new(path, version, FORMAT)
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    if version == 0:
        # before the first table: later it has no effect and needs disk space
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if sync == 'full' else 'NORMAL'}")
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # checkpoints are made beside the appends, see wal.py
    connection.execute(f"PRAGMA journal_size_limit = {wal_bytes}")
    if version == 0:
        connection.executescript(_TABLES)
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('checked', 1)")
        connection.execute(f"PRAGMA user_version = {KEYED - 1}")  # last: it tells readers that the file is ready
    elif version == 1:
        _add_checksums(connection, path)


def _add_checksums(connection: sqlite3.Connection, path: Path) -> None:
    """New rows get a checksum; existing rows stay without one."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ALTER TABLE events ADD COLUMN checksum INTEGER")
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('checked', ?)", (bounds_of(connection)[1],))
    connection.execute("PRAGMA user_version = 2")
    connection.execute("COMMIT")
    log.warning("%s was written by an older version: its events have no checksums, new events will have one", path)


def has_keys(connection: sqlite3.Connection) -> bool:
    """Whether rows may have keys. Raises `sqlite3.Error`."""
    return bool(connection.execute("PRAGMA user_version").fetchone()[0] >= KEYED)


def add_keys(connection: sqlite3.Connection) -> None:
    """Lets rows have keys (`deduplication`): older versions can't write such a file. Raises `sqlite3.Error`."""
    if has_keys(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("ALTER TABLE events ADD COLUMN deduplication BLOB")
        connection.execute(
            "CREATE TABLE kept_keys (sequence INTEGER PRIMARY KEY, received_ns INTEGER, deduplication BLOB)"
        )
        connection.execute(f"PRAGMA user_version = {KEYED}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def keep_keys(connection: sqlite3.Connection, sealed: int, end: int) -> None:
    """Keeps the keys of rows that are about to be deleted, those before the sequence `end`, if they are on disk nowhere
    else: that is so from `sealed` on. Call it in the transaction that deletes. Raises `sqlite3.Error`."""
    query = "SELECT sequence, received_ns FROM {} WHERE sequence < ? ORDER BY sequence DESC LIMIT 1"
    ends = {"events": min(sealed, end), "kept_keys": sealed}
    if found := [row for table, before in ends.items() for row in connection.execute(query.format(table), (before,))]:
        note_gone(connection, max(found)[0] + 1, max(found)[1])
    connection.execute("DELETE FROM kept_keys WHERE sequence < ?", (sealed,))
    connection.execute(
        "INSERT OR IGNORE INTO kept_keys SELECT sequence, received_ns, deduplication FROM events"
        " WHERE sequence >= ? AND sequence < ? AND deduplication IS NOT NULL",
        (sealed, end),
    )


def note_gone(connection: sqlite3.Connection, before: int, ns: int) -> None:
    """Notes what `LogReader.keys_gone` says. Raises `sqlite3.Error`."""
    for name, value in ((GONE, before), (GONE_NS, ns)):
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def forget_gone(connection: sqlite3.Connection) -> None:
    """Forgets what `LogReader.keys_gone` says. Raises `sqlite3.Error`."""
    connection.execute("DELETE FROM meta WHERE name IN (?, ?)", (GONE, GONE_NS))


def settle(connection: sqlite3.Connection) -> None:
    """Writes a transaction that changes nothing, so that it takes the place of one in the write-ahead log that a crash
    has left there unseen. Raises `sqlite3.Error`."""
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('next', ?)", (bounds_of(connection)[1],))
