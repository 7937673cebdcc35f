"""Events that subscriptions gave up, in a shard's file: which dead letter has them, and why.

A row is written in the transaction that moves the subscription's cursor past its event, and deleted with the event. A
subscription that delivers everything writes none. A replay or a rewind that delivers the event after all adds when.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from gateway_core.contract.capabilities import GivenUp, GivenUpCount

_TABLE = (
    "CREATE TABLE IF NOT EXISTS given_up (sequence INTEGER, name TEXT, facts TEXT NOT NULL,"
    " PRIMARY KEY (sequence, name)) WITHOUT ROWID"
)
_UNDELIVERED = "json_valid(facts) AND json_extract(facts, '$.delivered_ns') = 0"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(GivenUp).decode


class Row(NamedTuple):
    """The sequence of an event, the subscription that gave it up, and the facts as JSON."""

    sequence: int
    name: str
    facts: str


class Delivered(NamedTuple):
    """A subscription has delivered an event that it may have given up before (Unix time), and by which replay."""

    sequence: int
    name: str
    at_ns: int
    by: str = ""


Fate = Row | Delivered


def row(sequence: int, name: str, given_up: GivenUp) -> Row:
    """The row to write."""
    return Row(sequence, name, _encode(given_up).decode())


def save(connection: sqlite3.Connection, fates: Iterable[Fate]) -> None:
    """Writes what became of events, in this order; call it in a transaction. Raises `sqlite3.Error`."""
    connection.execute(_TABLE)
    for kind, found in groupby(fates, type):
        if kind is Row:
            connection.executemany("INSERT OR REPLACE INTO given_up VALUES (?, ?, ?)", found)
        else:
            connection.executemany(
                "UPDATE given_up SET facts = json_set(facts, '$.delivered_ns', ?3, '$.delivered_by', ?4)"
                f" WHERE sequence = ?1 AND name = ?2 AND {_UNDELIVERED}",
                found,
            )


def any_rows(connection: sqlite3.Connection) -> bool:
    """Whether any event of the shard was given up. Raises `sqlite3.Error`."""
    return _exists(connection) and connection.execute("SELECT 1 FROM given_up LIMIT 1").fetchone() is not None


def forget(connection: sqlite3.Connection, end: int) -> None:
    """Deletes the rows of events before the sequence `end`; call it in a transaction."""
    if _exists(connection):
        connection.execute("DELETE FROM given_up WHERE sequence < ?", (end,))


def load(connection: sqlite3.Connection) -> list[Row]:
    """All rows. Raises `sqlite3.Error`."""
    if not _exists(connection):
        return []
    found = connection.execute("SELECT sequence, name, facts FROM given_up")
    return [Row(*each) for each in found if tuple(map(type, each)) == (int, str, str)]  # damage leaves other types


def of(connection: sqlite3.Connection, sequence: int) -> dict[str, GivenUp]:
    """Who gave up one event: the facts by subscription. Raises `sqlite3.Error`."""
    if not _exists(connection):
        return {}
    found = connection.execute("SELECT name, facts FROM given_up WHERE sequence = ?", (sequence,)).fetchall()
    return {name: facts for name, text in found if (facts := _read(text)) is not None}


def counts(connection: sqlite3.Connection) -> Sequence[GivenUpCount]:
    """How many events each subscription gave up to each dead letter, without those that a replay has delivered. Raises
    `sqlite3.Error`."""
    if not _exists(connection):
        return []
    found = connection.execute(
        "SELECT name, json_extract(facts, '$.to'), count(*), max(sequence) FROM given_up"
        f" WHERE {_UNDELIVERED} GROUP BY 1, 2"
    ).fetchall()
    told = []
    for name, to, count, sequence in found:
        last = of(connection, sequence).get(name)
        if last is not None:
            told.append(GivenUpCount(name, str(to), count, last))
    return told


def redelivered(connection: sqlite3.Connection) -> list[tuple[int, str, GivenUp]]:
    """The events that subscriptions gave up and that were delivered since: sequence, subscription and facts. Raises
    `sqlite3.Error`."""
    if not _exists(connection):
        return []
    query = f"SELECT sequence, name, facts FROM given_up WHERE json_valid(facts) AND NOT ({_UNDELIVERED})"
    found = connection.execute(query).fetchall()
    return [(sequence, name, facts) for sequence, name, text in found if (facts := _read(text)) is not None]


def undelivered(connection: sqlite3.Connection, name: str, first: int = 0) -> list[int]:
    """The sequences, from the first on, of the events that a subscription gave up and no replay has delivered, in
    order. Raises `sqlite3.Error`."""
    if not _exists(connection):
        return []
    found = connection.execute(
        f"SELECT sequence FROM given_up WHERE name = ? AND sequence >= ? AND {_UNDELIVERED} ORDER BY sequence",
        (name, first),
    )
    return [sequence for (sequence,) in found if isinstance(sequence, int)]


def ahead(connection: sqlite3.Connection, floors: Mapping[str, int]) -> dict[str, set[int]]:
    """By subscription, the sequences from its floor on that it gave up and nobody has delivered: it was set back before
    them. Raises `sqlite3.Error`."""
    found: dict[str, set[int]] = {}
    if floors and _exists(connection):
        query = f"SELECT sequence, name FROM given_up WHERE sequence >= ? AND {_UNDELIVERED}"
        for sequence, name in connection.execute(query, (min(floors.values()),)):
            if isinstance(sequence, int) and sequence >= floors.get(name, sequence + 1):
                found.setdefault(name, set()).add(sequence)
    return found


def _exists(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'given_up'").fetchone() is not None


def _read(text: object) -> GivenUp | None:
    try:
        return _decode(text) if isinstance(text, str) else None
    except msgspec.MsgspecError:
        return None
