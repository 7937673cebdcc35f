"""What tells a log that went back from the one that was read before.

Sequences alone can't: a log that was restored from a backup, or whose machine lost power (`sync: normal`), gives the
same numbers to other events. So each run of the gateway begins an epoch in the shard's file before it appends: a random
number, and the sequence of its first event. Whoever keeps a place outside of the file keeps with it the last epochs
before that place. If the file has not got them, or not for so long, the log went back.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

KEY = "epochs"
"""The name of the epochs beside the places of shards."""
_KEPT = 8
_TABLE = "CREATE TABLE IF NOT EXISTS epochs (start INTEGER PRIMARY KEY, id TEXT NOT NULL)"


class Epoch(NamedTuple):
    """The run of a gateway that appended the events from `start` on."""

    start: int
    id: str


def begin(connection: sqlite3.Connection, first: int, following: int) -> None:
    """Notes that this run's events begin with the sequence `following`; call it in the transaction that appends the
    first of them. Forgets the epochs of which all events before `first` are deleted."""
    connection.execute(_TABLE)
    connection.execute("INSERT OR REPLACE INTO epochs VALUES (?, ?)", (following, secrets.token_hex(8)))
    connection.execute(
        "DELETE FROM epochs WHERE start < (SELECT max(start) FROM epochs WHERE start <= ?)", (max(first - 1, 1),)
    )


def save(connection: sqlite3.Connection, epochs: Sequence[Epoch]) -> None:
    """Writes the epochs of another file; call it in a transaction."""
    connection.execute(_TABLE)
    connection.executemany("INSERT OR REPLACE INTO epochs VALUES (?, ?)", epochs)


def load(connection: sqlite3.Connection) -> list[Epoch]:
    """The epochs of a shard, oldest first; none of one that an older version wrote. Raises `sqlite3.Error`."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'epochs'").fetchone():
        return []
    return [Epoch(start, id) for start, id in connection.execute("SELECT start, id FROM epochs ORDER BY start")]


def of_place(epochs: Sequence[Epoch], place: int) -> str:
    """The newest epochs of the events before this place, as text; "" if they are not known."""
    return ",".join(f"{e.start}:{e.id}" for e in [e for e in epochs if e.start < place][-_KEPT:])


def parted(there: Sequence[Epoch], following: int, place: int, text: str) -> int | None:
    """None if a place that was kept with these epochs (`of_place`; "" if without) still stands in this shard, which
    ends before the sequence `following`. Else the sequence from which on the events may be others."""
    known = [Epoch(int(start), id) for start, _, id in (part.partition(":") for part in text.split(",") if part)]
    if not known or not there or place <= there[0].start:
        return following if place > following else None
    ends = dict(zip((e.id for e in there), [*(e.start for e in there[1:]), following], strict=True))
    end = place
    for epoch in reversed(known):
        if epoch.id in ends:
            at = min(end, ends[epoch.id])
            return at if at < place else None
        end = epoch.start
    return min(there[0].start, following)


def ids(value: object) -> Mapping[str, str]:
    """The epochs that a file or a checkpoint has beside its places, by shard."""
    found = value.get(KEY) if isinstance(value, dict) else None
    return {str(shard): str(id) for shard, id in found.items()} if isinstance(found, dict) else {}
