"""Events that wait until they are due, in a file beside their shard's: `delayed-NNN.db`.

The file has a copy of each event for each subscription that waits for it, so the log may delete its own. One thread
uses it. What `add` returns from is in stable storage.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from gateway_core.contract.errors import StartError

from .checksum import checksum
from .meta import remedy
from .reader import open_read_only
from .rows import Row, SafeConnection
from .too_new import refuse_too_new

FORMAT = 1
TABLES = """
CREATE TABLE IF NOT EXISTS events (
  name TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  due_ns INTEGER NOT NULL,
  received_ns INTEGER NOT NULL,
  flags INTEGER NOT NULL,
  key BLOB,
  attributes BLOB NOT NULL,
  data BLOB,
  checksum INTEGER NOT NULL,
  ident INTEGER NOT NULL,
  PRIMARY KEY (name, sequence)
);
CREATE INDEX IF NOT EXISTS ident ON events (name, ident);
CREATE INDEX IF NOT EXISTS due ON events (name, due_ns, sequence);
"""
_COLUMNS = (  # a flipped bit makes bytes a text
    "sequence, received_ns, flags, CAST(key AS BLOB), CAST(attributes AS BLOB), CAST(data AS BLOB), due_ns, checksum"
)
Due = tuple[int, int]
"""When an event is due (Unix time in nanoseconds), and its sequence: the order in which they are delivered."""
FIRST: Due = (-1, -1)
"""Before all of them."""


class Waiting(NamedTuple):
    """An event that waits, and when it is due."""

    row: Row
    due_ns: int


class Step(NamedTuple):
    """The events of one read, the last that was read, whether it could be or not, and when the next one is due after a
    read that found none."""

    found: Sequence[Waiting]
    last: Due | None
    next_ns: int | None


DELAY_FILE = re.compile(r"delayed-(\d{3,})\.db")


def delay_files(folder: Path) -> list[Path]:
    """All files of a log's folder."""
    return sorted(path for path in folder.glob("delayed-*.db") if DELAY_FILE.fullmatch(path.name))


def path_of(folder: Path, shard: int) -> Path:
    """The file for the events of a shard."""
    return folder / f"delayed-{shard:03d}.db"


def unfinished_repair(path: Path) -> Path:
    """Where a repair leaves the new file until it has replaced the old one."""
    return path.with_name(f"{path.name}.repaired")


log = logging.getLogger("tidegate.log")
_Names = msgspec.defstruct("_Names", [("id", Any, ""), ("eventID", Any, ""), ("source", Any, "")])
_decode = msgspec.json.Decoder(_Names).decode


def _names(attributes: bytes) -> tuple[str, str]:
    """The id and source of an event."""
    found: Any = _decode(attributes)
    return str(found.id or found.eventID), str(found.source)


def _ident(id: str, source: str) -> int:
    """A number to find an event by: few others have it."""
    return crc32(f"{source}\0{id}".encode("utf-8", "surrogatepass"))


def identify(attributes: bytes) -> int:
    """The number by which an event with these attributes is found."""
    return _ident(*_names(attributes))


def total_of(name: str, base: int, row: Row, due_ns: int) -> int:
    """The checksum of an event that waits for a subscription. Raises `TypeError` if a value has another type."""
    return checksum(base + row.sequence, *row[1:]) ^ crc32(name.encode()) ^ _fold(due_ns)


def _fold(due_ns: int) -> int:
    return (due_ns ^ due_ns >> 32) & 0xFFFF_FFFF


def look(path: Path) -> None:
    """Raises `StartError` for a file that can't be opened. Changes nothing."""
    if unfinished_repair(path).exists():
        raise StartError(f"log: a repair of {path} was interrupted: run {remedy(path.parent)} again")
    if not path.exists():
        return
    try:
        with closing(open_read_only(path)) as connection:
            _known(path, connection)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except (sqlite3.Error, OSError) as e:
        raise _unusable(path, e) from e


def _known(path: Path, connection: sqlite3.Connection) -> int:
    """The format of a file. Raises `StartError` if it is a newer one."""
    version = format_of(connection)
    refuse_too_new(path, version, FORMAT)
    return version


def format_of(connection: sqlite3.Connection) -> int:
    """The format of a file; 0 if it has no tables yet."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _unusable(path: Path, error: Exception) -> StartError:
    return StartError(
        f"log: {path} can't be used, and events wait in it: {error}; restore it from a backup, or keep what can be read"
        f" of it with {remedy(path.parent)}"
    )


class DelayFile:
    """One file. `base` is the position of sequence 0. Methods raise `sqlite3.Error`."""

    def __init__(self, path: Path, base: int) -> None:
        self.path = path
        self._base = base
        self._remedy = remedy(path.parent)
        look(path)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._connection = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, factory=SafeConnection
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise
        except (sqlite3.Error, OSError) as e:
            raise _unusable(path, e) from e

    def _prepare(self) -> None:
        version = _known(self.path, self._connection)
        if version == 0:
            self._connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")  # the cursor moves past what is here
        self._connection.execute("PRAGMA busy_timeout = 10000")
        if version == 0:
            self._connection.executescript(TABLES)
            self._connection.execute(f"PRAGMA user_version = {FORMAT}")

    def _intact(self, name: str, row: Row, due_ns: int, total: int) -> bool:
        try:
            return total_of(name, self._base, row, due_ns) == total
        except TypeError:  # damage leaves other types
            return False

    def count(self, name: str) -> int:
        """How many events wait for a subscription."""
        query = "SELECT count(*) FROM events INDEXED BY due WHERE name = ?"
        return int(self._connection.execute(query, (name,)).fetchone()[0])

    def add(self, name: str, waiting: Sequence[Waiting]) -> int:
        """Keeps events, also in place of those that it has at their sequences: after a power failure the log may give
        a sequence again. Returns how many are new."""
        rows = [
            (name, r.sequence, due, *r[1:], total_of(name, self._base, r, due), identify(r.attributes))
            for r, due in waiting
        ]
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            new = sum(self.due_ns(name, r.sequence) is None for r, _ in waiting)
            self._connection.executemany("INSERT OR REPLACE INTO events VALUES (?,?,?,?,?,?,?,?,?,?)", rows)
            return new

    def remove(self, gone: Iterable[tuple[str, int]]) -> None:
        """Removes events by subscription and sequence."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("DELETE FROM events WHERE name = ? AND sequence = ?", gone)
        free = self._connection.execute("PRAGMA freelist_count").fetchone()[0]
        if free > 4096:
            self._connection.execute("PRAGMA incremental_vacuum(256)").fetchall()

    def due(self, name: str, after: Due, until_ns: int, count: int, most_bytes: int) -> Step:
        """Some of the events that are due until a time, after this one, in their order. Damaged ones are left out, and
        stay."""
        found: list[Waiting] = []
        last: Due | None = None
        size = 0
        query = (
            f"SELECT {_COLUMNS} FROM events INDEXED BY due WHERE name = ? AND (due_ns, sequence) > (?, ?)"
            " AND due_ns <= ? ORDER BY due_ns, sequence LIMIT ?"
        )
        with closing(self._connection.execute(query, (name, *after, until_ns, count))) as rows:
            for *columns, due_ns, total in rows:
                row = Row(*columns)
                last = due_ns, row.sequence
                if not self._intact(name, row, due_ns, total):
                    log.error(
                        "%s: event %s that waits for %s is damaged: it is not delivered; set it aside with %s",
                        self.path,
                        last[1],
                        name,
                        self._remedy,
                    )
                    continue
                found.append(Waiting(row, due_ns))
                size += len(row.attributes) + len(row.data or b"")
                if size >= most_bytes:
                    break
        if last is not None:
            return Step(found, last, None)
        query = "SELECT min(due_ns) FROM events INDEXED BY due WHERE name = ? AND (due_ns, sequence) > (?, ?)"
        return Step(found, None, self._connection.execute(query, (name, *after)).fetchone()[0])

    def due_ns(self, name: str, sequence: int) -> int | None:
        """When an event is due, None if it does not wait."""
        query = "SELECT due_ns FROM events WHERE name = ? AND sequence = ?"
        found = self._connection.execute(query, (name, sequence)).fetchone()
        return None if found is None else int(found[0])

    def listed(self, name: str, after: Due, count: int) -> list[Waiting]:
        """Events in the order in which they are due."""
        query = (
            f"SELECT {_COLUMNS} FROM events INDEXED BY due WHERE name = ? AND (due_ns, sequence) > (?, ?)"
            " ORDER BY due_ns, sequence LIMIT ?"
        )
        return [Waiting(Row(*c[:6]), c[6]) for c in self._connection.execute(query, (name, *after, count))]

    def by_time(self, name: str, bounds: Sequence[int]) -> list[int]:
        """How many events are due until each of these times."""
        query = "SELECT count(*) FROM events INDEXED BY due WHERE name = ? AND due_ns <= ?"
        return [self._connection.execute(query, (name, bound)).fetchone()[0] for bound in bounds]

    def of(self, name: str, id: str, source: str) -> list[int]:
        """The sequences of the events of this source and id."""
        query = f"SELECT {_COLUMNS} FROM events INDEXED BY ident WHERE name = ? AND ident = ?"
        rows = self._connection.execute(query, (name, _ident(id, source))).fetchall()
        return sorted(row[0] for row in rows if _names(row[4]) == (id, source))

    def hurry(self, name: str, sequences: Sequence[int]) -> None:
        """These events are due now."""
        found = [self.due_ns(name, sequence) for sequence in sequences]
        changes = [(_fold(due), name, s) for s, due in zip(sequences, found, strict=True) if due is not None]
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "UPDATE events SET due_ns = 0, checksum = (checksum | ?1) - (checksum & ?1)"
                " WHERE name = ?2 AND sequence = ?3",
                changes,
            )

    def close(self) -> None:
        self._connection.close()
