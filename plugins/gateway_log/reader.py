"""Reads a log's files, from any process, while a gateway writes them or not.

A log is a folder (`<data_dir>/log/<broker>/`) with one SQLite file a shard: `shard-000.db`, `shard-001.db`, …, in WAL
mode. Each gateway worker writes one shard. What a file holds (format 1, `PRAGMA user_version`):

    events (
      sequence    INTEGER PRIMARY KEY,  -- 1, 2, 3, … without gaps; old rows are deleted from the front
      received_ns INTEGER NOT NULL,     -- Unix time in nanoseconds at which the gateway took the event
      flags       INTEGER NOT NULL,     -- bit 0: `data` is a JSON value although no `datacontenttype` says so
                                        -- bit 1: `attributes` has a member `:trace`, which is none of them
      key         BLOB,                 -- the record key, where the transport had one
      attributes  TEXT NOT NULL,        -- a JSON object: every context attribute by its wire name; of an event that was
                                        -- traced also `:trace`, its trace context: `traceparent[ tracestate]`
      data        BLOB                  -- the payload's bytes as they came; NULL where the event has no data
    )
    feeds (name TEXT PRIMARY KEY, place INTEGER, pending TEXT)  -- where each subscription is (see `places.py`)
    meta (name TEXT PRIMARY KEY, value INTEGER)
      next    a lower bound of the next sequence, kept when rows are deleted: numbers are never used again
      routed  the sequence before which all events have been offered to the subscriptions

An event's position is `shard << 48 | sequence`.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from gateway_core.event import Event

SHARD_BITS = 48
_SEQUENCES = (1 << SHARD_BITS) - 1
_FILE = re.compile(r"shard-(\d{3,})\.db")
_COLUMNS = "sequence, received_ns, flags, key, attributes, data"
JSON_DATA, TRACED = 1, 2
TRACE = ":trace"
_decode = msgspec.json.Decoder(dict).decode


class Row(NamedTuple):
    """One event as the file has it."""

    sequence: int
    received_ns: int
    flags: int
    key: bytes | None
    attributes: str
    data: bytes | None


def position_of(shard: int, sequence: int) -> int:
    """The position of an event: one number over all shards."""
    return shard << SHARD_BITS | sequence


def place_of(position: int) -> tuple[int, int]:
    """The shard and the sequence of a position."""
    return position >> SHARD_BITS, position & _SEQUENCES


def shard_file(folder: Path, shard: int) -> Path:
    """The file of one shard."""
    return folder / f"shard-{shard:03d}.db"


def shards_in(folder: Path) -> list[int]:
    """The numbers of the shards that a folder has, sorted."""
    found = (_FILE.fullmatch(p.name) for p in folder.iterdir()) if folder.is_dir() else ()
    return sorted(int(m[1]) for m in found if m)


def to_event(shard: int, row: tuple[int, int, int, bytes | None, str, bytes | None]) -> Event:
    """The event that a row holds. Raises `msgspec.DecodeError` where the attributes are no JSON object."""
    sequence, received_ns, flags, key, text, data = row
    attributes = _decode(text)
    trace = attributes.pop(TRACE, None) if flags & TRACED else None
    return Event(attributes, data, flags & 1 == 1, key, received_ns, shard << SHARD_BITS | sequence, trace)


class LogReader:
    """Read-only access to a log's folder. Not for use by several threads at once. Close it, or use it with `with`.

    Errors are `sqlite3.Error`s; a shard that has just been created, or that does not exist, is simply empty.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._connections: dict[int, sqlite3.Connection] = {}

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the files."""
        while self._connections:
            self._connections.popitem()[1].close()

    def shards(self) -> list[int]:
        """The numbers of all shards that exist now."""
        return shards_in(self.folder)

    def bounds(self, shard: int) -> tuple[int, int]:
        """The sequence of the first event that the shard still has, and that of the next event it will get. Both are
        equal where it has none."""
        connection = self._connection(shard)
        return (1, 1) if connection is None else bounds_of(connection)

    def read(self, shard: int, start: int, end: int | None = None, limit: int = -1) -> Iterator[Row]:
        """The shard's rows with `start <= sequence < end`, in order, at most `limit` of them. They are of one moment:
        while the iterator is not exhausted the file can't shrink its WAL, so read in parts of some thousands."""
        connection = self._connection(shard)
        if connection is None:
            return
        rows = connection.execute(
            f"SELECT {_COLUMNS} FROM events WHERE sequence >= ? AND sequence < ? ORDER BY sequence LIMIT ?",
            (start, _SEQUENCES if end is None else end, limit),
        )
        with contextlib.closing(rows):
            for row in rows:
                yield Row._make(row)

    def having(self, shard: int, start: int, end: int, texts: Sequence[str]) -> Iterator[Row]:
        """The shard's rows with `start <= sequence < end` whose attributes' JSON has all of these texts in it, the
        newest first."""
        connection = self._connection(shard)
        if connection is None:
            return
        having = " AND instr(attributes, ?)" * len(texts)
        query = f"SELECT {_COLUMNS} FROM events WHERE sequence >= ? AND sequence < ?{having} ORDER BY sequence DESC"
        yield from map(Row._make, connection.execute(query, (start, end, *texts)).fetchall())

    def _connection(self, shard: int) -> sqlite3.Connection | None:
        if (known := self._connections.get(shard)) is not None:
            return known
        path = shard_file(self.folder, shard)
        if not path.exists():
            return None
        connection = open_read_only(path)
        try:
            ready = connection.execute("PRAGMA user_version").fetchone()[0] >= 1
        except sqlite3.Error:
            connection.close()
            raise
        if not ready:  # another process is creating it; set as the last step of that
            connection.close()
            return None
        self._connections[shard] = connection
        return connection


def bounds_of(connection: sqlite3.Connection) -> tuple[int, int]:
    """See `LogReader.bounds`."""
    # one statement, so that all three come from one snapshot
    first, last, kept = connection.execute(
        "SELECT (SELECT min(sequence) FROM events), (SELECT max(sequence) FROM events),"
        " (SELECT value FROM meta WHERE name = 'next')"
    ).fetchone()
    following = max((last or 0) + 1, kept or 1)
    return (first or following), following


def open_read_only(path: Path) -> sqlite3.Connection:
    """A connection that can't write, to be used by one thread at a time."""
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None, check_same_thread=False)
