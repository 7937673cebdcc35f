"""Reads a log's files, from any process, whether or not a gateway is writing them.

A log is a folder (`<data_dir>/log/<broker>/`) with one SQLite file a shard: `shard-000.db`, `shard-001.db`, …, in WAL
mode. Each gateway worker writes one shard. The contents of a file (format 2, or 3 with keys; `PRAGMA user_version`):

    events (
      sequence    INTEGER PRIMARY KEY,  -- 1, 2, 3, … without gaps; old rows are deleted from the front
      received_ns INTEGER NOT NULL,     -- Unix time in nanoseconds at which the gateway took the event
      flags       INTEGER NOT NULL,     -- bit 0: `data` is a JSON value although no `datacontenttype` says so
                                        -- bit 1: `attributes` has a member `:trace`, which is not an attribute
      key         BLOB,                 -- the record key, if the transport had one
      attributes  TEXT NOT NULL,        -- a JSON object: every context attribute by its wire name; of an event that was
                                        -- traced also `:trace`, its trace context: `traceparent[ tracestate]`
      data        BLOB,                 -- the payload's bytes as received; NULL if the event has no data
      checksum    INTEGER,              -- over all of these (`checksum.py`); NULL in rows that format 1 wrote
      deduplication BLOB                -- only in format 3: the event's key (`deduplication.py`)
    )
    feeds (name TEXT PRIMARY KEY, place INTEGER, pending TEXT)  -- cursors of subscriptions (see `cursor.py`)
    meta (name TEXT PRIMARY KEY, value INTEGER)
      next    a lower bound of the next sequence, kept when rows are deleted: numbers are never reused
      checked the first sequence that has a checksum; format 1 had none
      routed  the sequence before which all events have been offered to the subscriptions
      keys_gone, keys_gone_ns  see `LogReader.keys_gone`
    epochs (start INTEGER PRIMARY KEY, id TEXT)  -- the runs that appended, see `epochs.py`
    given_up (sequence INTEGER, name TEXT, facts TEXT)  -- events in a dead letter, see `given_up.py`
    kept_keys (sequence, received_ns, deduplication)  -- only in format 3: of deleted rows, until they are in a run

An event's position is `shard << 48 | sequence`.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import quote

import msgspec

from gateway_core.contract.capabilities import GivenUp, GivenUpCount
from gateway_core.contract.event import Event, position_of

from . import epochs, given_up, meta
from .cursor import CursorState, Place, load_cursors
from .epochs import Epoch
from .rows import Row as Row
from .rows import Rows, SafeConnection, Unreadable, is_damage, salvage, scan
from .too_new import too_new

log = logging.getLogger("tidegate.log")

SHARD_FILE = re.compile(r"shard-(\d{3,})\.db")
FORMAT = 3
"""The newest format."""
KEYED = 3
"""The first one whose rows may have keys. Only logs that need them have it: older versions can't read it."""
GONE, GONE_NS = "keys_gone", "keys_gone_ns"
JSON_DATA, TRACED = 1, 2
TRACE = ":trace"
_decode = msgspec.json.Decoder(dict).decode


def shard_file(folder: Path, shard: int) -> Path:
    """The file of one shard."""
    return folder / f"shard-{shard:03d}.db"


def shards_in(folder: Path) -> list[int]:
    """The numbers of the shards in a folder, sorted."""
    found = (SHARD_FILE.fullmatch(p.name) for p in folder.iterdir()) if folder.is_dir() else ()
    return sorted(int(m[1]) for m in found if m)


def to_event(shard: int, row: Row) -> Event:
    """The event in a row. Raises `msgspec.DecodeError` if the attributes are not a JSON object."""
    sequence, received_ns, flags, key, text, data = row
    attributes = _decode(text)
    trace = attributes.pop(TRACE, None) if flags & TRACED else None
    return Event(attributes, data, flags & 1 == 1, key, received_ns, position_of(shard, sequence), trace)


class LogReader:
    """Read-only access to a log's folder. Not for use by several threads at once. Close it, or use it in `with`.

    Errors are `sqlite3.Error`s. A shard that was just created, or does not exist, is empty. Every row is checked;
    `report(shard, unreadable)` is called for unreadable ones, which are skipped.
    """

    def __init__(self, folder: str | Path, report: Callable[[int, Unreadable], None] | None = None) -> None:
        self.folder = Path(folder)
        self._connections: dict[int, sqlite3.Connection] = {}
        self._rows: dict[int, Rows] = {}
        self._report = report or self._log

    def _log(self, shard: int, found: Unreadable) -> None:
        log.error("%s: %s", shard_file(self.folder, shard), described(found))

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the files."""
        while self._connections:
            self._connections.popitem()[1].close()
        self._rows.clear()

    def shards(self) -> list[int]:
        """The numbers of all existing shards."""
        return shards_in(self.folder)

    def bounds(self, shard: int) -> tuple[int, int]:
        """The sequence of the first available event of the shard, and the sequence that its next event will get. They
        are equal if the shard is empty. For a damaged file: as far as they are known."""
        try:
            connection = self._connection(shard)
            return (1, 1) if connection is None else bounds_of(connection)
        except sqlite3.Error as e:
            if not is_damage(e):
                raise
        return known_bounds(self.folder, shard)

    def epochs(self, shard: int) -> list[Epoch]:
        """The shard's epochs, oldest first: see `epochs.py`."""
        try:
            connection = self._connection(shard)
            return [] if connection is None else epochs.load(connection)
        except sqlite3.Error as e:
            if is_damage(e):  # can't tell whether it went back; its readable events are still delivered
                return []
            raise

    def given_up_rows(self, shard: int) -> list[given_up.Row]:
        """All that is known about events of the shard that were given up; none if its file is damaged there."""
        try:
            connection = self._connection(shard)
            return [] if connection is None else given_up.load(connection)
        except sqlite3.Error as e:
            if is_damage(e):
                return []
            raise

    def given_up(self, shard: int, sequence: int) -> dict[str, GivenUp]:
        """Who gave up an event: the facts by subscription."""
        connection = self._connection(shard)
        return {} if connection is None else given_up.of(connection, sequence)

    def given_up_counts(self, shard: int) -> Sequence[GivenUpCount]:
        """How many of the shard's events were given up, by subscription and dead letter."""
        connection = self._connection(shard)
        return [] if connection is None else given_up.counts(connection)

    def redelivered(self, shard: int) -> list[tuple[int, str, GivenUp]]:
        """The shard's events that were given up and delivered since: sequence, subscription and facts."""
        connection = self._connection(shard)
        return [] if connection is None else given_up.redelivered(connection)

    def undelivered(self, shard: int, name: str) -> Iterator[Event]:
        """The shard's events that a subscription gave up and no replay has delivered, oldest first."""
        connection = self._connection(shard)
        for sequence in [] if connection is None else given_up.undelivered(connection, name):
            yield from self.events(shard, self.read(shard, sequence, sequence + 1))

    def place(self, shard: int, name: str) -> Place:
        """How far a subscription is, as its cursor was last written."""
        connection = self._connection(shard)
        routed, cursors = (1, {}) if connection is None else load_cursors(connection)
        state = cursors.get(name, CursorState(1))
        return Place(routed if state.next is None else state.next, frozenset(state.pending))

    def undelivered_from(self, shard: int, name: str, first: int) -> list[int]:
        """The sequences, from the first on, of events that a subscription gave up and no replay has delivered."""
        connection = self._connection(shard)
        return [] if connection is None else given_up.undelivered(connection, name, first)

    def read(self, shard: int, start: int, end: int | None = None, limit: int = -1) -> Iterator[Row]:
        """The shard's rows with `start <= sequence < end`, in order, at most `limit` of them, read in parts."""
        if (rows := self.rows(shard)) is not None:
            yield from scan(rows, start, self.bounds(shard)[1] if end is None else end, limit)

    def rows(self, shard: int) -> Rows | None:
        """The rows of a shard, or None if it does not exist yet."""
        connection = self._connection(shard)
        if connection is None:
            return None
        if shard not in self._rows:
            self._rows[shard] = Rows(connection, position_of(shard, 0), partial(self._report, shard))
        return self._rows[shard]

    def events(self, shard: int, rows: Iterable[Row]) -> Iterator[Event]:
        """The events in these rows. A row that holds none although its checksum is right is reported, and skipped."""
        for row in rows:
            try:
                event = to_event(shard, row)
            except (ValueError, RecursionError) as e:
                self._report(shard, Unreadable(row.sequence, row.sequence, str(e), raw=(*row, None)))
            else:
                yield event

    def has_keys(self, shard: int) -> bool:
        """Whether the shard's rows may have keys (`deduplication.py`); False if its file is damaged there."""
        try:
            connection = self._connection(shard)
            return connection is not None and _version_of(connection) >= KEYED
        except sqlite3.Error as e:
            if is_damage(e):
                return False
            raise

    def keys(
        self, shard: int, table: str = "events", start: int = 1, end: int = 1 << 62
    ) -> Iterator[tuple[int, int, bytes]]:
        """The sequence, time and key of the rows with `start <= sequence < end` that have one, in order. `table` is
        "events", or "kept_keys" for rows that are deleted."""
        connection = self._connection(shard)
        if connection is not None:
            query = f"SELECT sequence, received_ns, deduplication FROM {table} WHERE sequence >= ? AND sequence < ?"
            for found in connection.execute(f"{query} AND deduplication NOT NULL ORDER BY sequence", (start, end)):
                if tuple(map(type, found)) == (int, int, bytes):  # damage leaves other types
                    yield found

    def keys_gone(self, shard: int) -> tuple[int, int]:
        """Before which sequence the shard no longer has the keys of events that are deleted, since they are on disk
        elsewhere, and when the last of these was received (Unix time in nanoseconds); (1, 0) if it has all."""
        connection = self._connection(shard)
        query = "SELECT name, value FROM meta WHERE name IN (?, ?)"
        found = {} if connection is None else dict(connection.execute(query, (GONE, GONE_NS)).fetchall())
        return found.get(GONE, 1), found.get(GONE_NS, 0)

    def first_since(self, shard: int, ns: int, start: int, end: int) -> int:
        """The first sequence in `start <= sequence < end` of an event that was received at this time (Unix time in
        nanoseconds) or later, else `end`. `start` if the file is damaged there."""
        connection = self._connection(shard)
        if connection is None:
            return start
        query = "SELECT sequence FROM events WHERE sequence >= ? AND sequence < ? AND received_ns >= ?"
        try:
            found = connection.execute(f"{query} ORDER BY sequence LIMIT 1", (start, end, ns)).fetchone()
        except sqlite3.Error as e:
            if not is_damage(e):
                raise
            return start
        return end if found is None else int(found[0])

    def having(self, shard: int, start: int, end: int, texts: Sequence[str]) -> Iterator[Row]:
        """The shard's rows with `start <= sequence < end` whose attributes' JSON contains all of these texts, newest
        first."""
        connection = self._connection(shard)
        if connection is None:
            return
        having = " AND instr(attributes, ?)" * len(texts)
        query = f"SELECT sequence FROM events WHERE sequence >= ? AND sequence < ?{having} ORDER BY sequence DESC"
        try:
            for (sequence,) in connection.execute(query, (start, end, *texts)).fetchall():
                yield from self.read(shard, sequence, sequence + 1)
        except sqlite3.Error as e:
            if not is_damage(e):
                raise
            wanted = [text.encode() for text in texts]
            rows = [row for row in self.read(shard, start, end) if all(text in row.attributes for text in wanted)]
            yield from reversed(rows)

    def _connection(self, shard: int) -> sqlite3.Connection | None:
        if (known := self._connections.get(shard)) is not None:
            return known
        path = shard_file(self.folder, shard)
        if not path.exists():
            return None
        connection = open_read_only(path)
        try:
            version = _version_of(connection)
            if (why := too_new(version, FORMAT)) is not None:
                raise sqlite3.NotSupportedError(f"{path} {why}")
        except sqlite3.Error:
            connection.close()
            raise
        if version == 0:  # another process is creating it; set as the last step of that
            connection.close()
            return None
        self._connections[shard] = connection
        return connection


def described(found: Unreadable) -> str:
    """A message about unreadable events."""
    one = found.first == found.last
    events = f"event {found.first}" if one else f"events {found.first} to {found.last}"
    return f"{events} can't be read: {found.reason}"


def bounds_of(connection: sqlite3.Connection) -> tuple[int, int]:
    """See `LogReader.bounds`."""
    # one statement, so that all three come from one snapshot
    first, last, kept = connection.execute(
        "SELECT (SELECT min(sequence) FROM events), (SELECT max(sequence) FROM events),"
        " (SELECT value FROM meta WHERE name = 'next')"
    ).fetchone()
    following = max((last or 0) + 1, kept or 1)
    return (first or following), following


def _version_of(connection: sqlite3.Connection) -> int:
    query = "PRAGMA user_version"
    try:
        return int(connection.execute(query).fetchone()[0])
    except sqlite3.Error as e:
        if not is_damage(e):
            raise
    salvage(connection)
    return int(connection.execute(query).fetchone()[0])


def known_bounds(folder: Path, shard: int) -> tuple[int, int]:
    """The bounds of a damaged shard, from its readable part and from the metadata. Raises `StartError` if that is
    damaged too."""
    known = meta.read(folder).shard(shard) or meta.ShardMeta()
    first, following = known.first, known.next
    with contextlib.suppress(sqlite3.Error), closing(open_read_only(shard_file(folder, shard))) as connection:
        salvage(connection)
        for query in ("SELECT max(sequence) + 1 FROM events", "SELECT value FROM meta WHERE name = 'next'"):
            with contextlib.suppress(sqlite3.Error):
                found = connection.execute(query).fetchone()
                following = max(following, (found and found[0]) or 1)
        with contextlib.suppress(sqlite3.Error):
            first = max(first, connection.execute("SELECT min(sequence) FROM events").fetchone()[0] or following)
    return min(first, following), following


def open_read_only(path: Path) -> sqlite3.Connection:
    """A read-only connection, for one thread at a time."""
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    return sqlite3.connect(
        uri, uri=True, timeout=10, isolation_level=None, check_same_thread=False, factory=SafeConnection
    )
