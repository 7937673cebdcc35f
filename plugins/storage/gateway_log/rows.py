"""Reads the rows of a shard and checks each one; skips unreadable ones.

SQLite detects a damaged page only when it reads it, and then only reports "malformed". So the requested range is halved
until readable and unreadable rows are separated.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import msgspec

from .checksum import checksum

CHECKED = 2
"""The first format in which rows have checksums."""
CHUNK = 256
MAX_BYTES = 1024 * 1024
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_decode = msgspec.json.Decoder(dict).decode


class Row(NamedTuple):
    """One event as stored; `attributes` are UTF-8."""

    sequence: int
    received_ns: int
    flags: int
    key: bytes | None
    attributes: bytes
    data: bytes | None


class Unreadable(NamedTuple):
    """Events `first` to `last` (inclusive) that can't be read, and why. `page`: not only a row but the file itself is
    damaged there. `raw` has the columns of table `events`, if the row can be read at all."""

    first: int
    last: int
    reason: str
    page: bool = False
    raw: tuple[object, ...] | None = None


Report = Callable[[Unreadable], None]


def is_damage(error: BaseException) -> bool:
    """Whether SQLite reports a damaged file. Other errors are temporary: busy, out of memory, a disk that does not
    respond. A missing table is damage, too: a file gets its format after all tables, and older formats lack only those
    that nobody asks for. So is a file that ends too soon, which older versions of SQLite call malformed."""
    if not isinstance(error, sqlite3.DatabaseError):
        return False
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in _DAMAGED or code == sqlite3.SQLITE_IOERR_SHORT_READ or str(error).startswith("no such table")


class SafeConnection(sqlite3.Connection):
    """A connection that reports a damaged schema as `sqlite3.DatabaseError`, too. SQLite quotes the schema in its
    message, and Python fails to decode that if a damaged byte makes it no UTF-8."""

    def execute(self, *args: Any, **options: Any) -> sqlite3.Cursor:
        """See `sqlite3.Connection.execute`."""
        try:
            return super().execute(*args, **options)
        except UnicodeDecodeError as e:
            raise damaged("malformed database schema") from e


def damaged(what: str) -> sqlite3.DatabaseError:
    """The error of a damaged file."""
    error = sqlite3.DatabaseError(what)
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_CORRUPT, "SQLITE_CORRUPT"
    return error


def salvage(connection: sqlite3.Connection) -> None:
    """Lets a read-only connection read a file that was truncated."""
    connection.execute("PRAGMA writable_schema = ON")


class Rows:
    """The rows of one shard, through this connection. `base` is the position of sequence 0."""

    def __init__(self, connection: sqlite3.Connection, base: int, report: Report) -> None:
        self._connection = connection
        self._base = base
        self._report = report
        self._checked: int | None = None  # the first sequence that must have a checksum
        self._query = ""

    def read(self, start: int, end: int, count: int = CHUNK) -> tuple[list[Row], int]:
        """Rows with `start <= sequence < end`, at most `count` and about `MAX_BYTES`, and the next sequence to read:
        `end` if there are no more. Raises `sqlite3.Error`s other than damage."""
        try:
            return self._intact(start, end, count)[:2]
        except sqlite3.Error as e:
            if not _is_lasting(e):
                raise
            salvage(self._connection)
            return self._around(start, min(end, start + count))

    def _intact(self, start: int, end: int, count: int, behind: bool = False) -> tuple[list[Row], int, int]:
        """All rows at once: the usual case. `behind`: there are rows before `start`. Also returns the first sequence
        that is thought to follow the last row of all."""
        checked = self._prepare()
        rows: list[Row] = []
        expected, size, found = start, 0, 0
        base = self._base
        with closing(self._connection.execute(self._query, (start, end, count))) as cursor:
            for sequence, received_ns, flags, key, attributes, data, total in cursor:
                if not expected <= sequence < end:
                    raise damaged("rows out of order")
                if sequence != expected:
                    self._missing(expected, sequence, behind or found > 0)
                expected = sequence + 1
                found += 1
                try:
                    if total is None:
                        if sequence >= checked:
                            raise ValueError("it has no checksum")
                        _decode(attributes)  # of an older version
                    elif checksum(base + sequence, received_ns, flags, key, attributes, data) != total:
                        raise ValueError("its checksum is another one")
                except (TypeError, ValueError) as e:
                    self._report(Unreadable(sequence, sequence, str(e), raw=self._raw(sequence)))
                    continue
                rows.append(Row(sequence, received_ns, flags, key, attributes, data))
                size += len(attributes) + (len(data) if data else 0)
                if size >= MAX_BYTES:
                    return rows, expected, end
        if found == count:
            return rows, expected, end
        if end <= self._edge("max", end - 1) + 1:
            self._missing(expected, end, behind or found > 0)
            expected = end
        return rows, end, expected

    def _prepare(self) -> int:
        """The first sequence that must have a checksum."""
        if self._checked is None:
            connection = self._connection
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            self._query = (
                "SELECT sequence, received_ns, flags, CAST(key AS BLOB), CAST(attributes AS BLOB), CAST(data AS BLOB),"
                f" {'NULL' if version < CHECKED else 'checksum'} FROM events WHERE sequence >= ? AND sequence < ?"
                " ORDER BY sequence LIMIT ?"
            )
            if version < CHECKED:
                return sys.maxsize
            try:
                known = connection.execute("SELECT value FROM meta WHERE name = 'checked'").fetchone()
            except sqlite3.Error as e:
                if not is_damage(e):
                    raise
                return sys.maxsize  # it is unknown which rows must have one
            self._checked = known[0] if known else 1
        return self._checked

    def _edge(self, which: str, unknown: int) -> int:
        """The first or the last existing sequence."""
        try:
            found = self._connection.execute(f"SELECT {which}(sequence) FROM events").fetchone()[0]
        except sqlite3.Error as e:
            if not _is_lasting(e):
                raise
            return unknown
        if found is None:
            return 0
        return found if found > 0 else unknown  # there is none below 1 but by damage

    def _missing(self, first: int, end: int, behind: bool) -> None:
        """There are no rows with these sequences: retention deleted them, or they are lost. Retention deletes the
        oldest, so what is missing `behind` a row is lost."""
        oldest = first if behind else self._edge("min", first)
        if oldest and (first := max(first, oldest)) < end:
            self._report(Unreadable(first, end - 1, "there is no such row"))

    def _raw(self, sequence: int) -> tuple[object, ...] | None:
        row = self._connection.execute(self._query, (sequence, sequence + 1, 1)).fetchone()
        return tuple(row) if row else None

    def _around(self, start: int, end: int) -> tuple[list[Row], int]:
        rows: list[Row] = []
        lost: Unreadable | None = None
        beyond: list[tuple[int, int]] = []
        ranges = [(start, end)]
        while ranges:
            start, stop = ranges.pop()
            try:
                found, _, after = self._intact(start, stop, stop - start, bool(rows))
            except sqlite3.Error as e:
                if not _is_lasting(e):
                    raise
                if stop - start > 1:
                    middle = (start + stop) // 2
                    ranges += [(middle, stop), (start, middle)]
                elif lost is not None and lost.last == start - 1:
                    lost = lost._replace(last=start)
                else:
                    self._tell(lost)
                    lost = Unreadable(start, start, str(e), page=is_damage(e))
            else:
                rows += found
                if found:  # a damaged tree has no right end
                    for first, following in beyond:
                        self._missing(first, following, True)
                    beyond.clear()
                if after < stop:
                    beyond.append((after, stop))
        self._tell(lost)
        return rows, end

    def _tell(self, lost: Unreadable | None) -> None:
        if lost is not None:
            self._report(lost)


def _is_lasting(error: sqlite3.Error) -> bool:
    """Whether the error would happen again."""
    undecodable = isinstance(error, sqlite3.OperationalError) and "decode" in str(error).lower()
    return undecodable or is_damage(error)


def scan(rows: Rows, start: int, end: int, limit: int = -1) -> Iterator[Row]:
    """All rows with `start <= sequence < end`, or the first `limit` readable ones."""
    while start < end and limit:
        found, start = rows.read(start, end, CHUNK if limit < 0 else min(CHUNK, limit))
        yield from found
        limit -= len(found) if limit > 0 else 0
