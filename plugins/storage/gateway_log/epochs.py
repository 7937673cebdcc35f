"""Epochs detect a log that went back in time.

Sequences alone can't: a log that was restored from a backup, or that lost its last events in a power failure (`sync:
normal`), assigns the same numbers to other events. So each run of the gateway starts an epoch in the shard's file
before its first append: a random number, and the sequence of its first event. A reader that keeps its position outside
of the file also keeps the last epochs before that position. If the file does not have them, or ended them earlier, the
log went back.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

KEY = "epochs"
"""The name of the epochs beside the sequences of shards."""
_KEPT = 8
_TABLE = "CREATE TABLE IF NOT EXISTS epochs (start INTEGER PRIMARY KEY, id TEXT NOT NULL)"


class Epoch(NamedTuple):
    """The run of a gateway that appended the events from `start` on."""

    start: int
    id: str


def begin(connection: sqlite3.Connection, first: int, following: int) -> None:
    """Records that this run's events begin with the sequence `following`. Call it in the transaction that appends the
    first of them. Deletes epochs whose events are all before `first`."""
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
    """The epochs of a shard, oldest first; none if an older version wrote it. Damage may leave one without an id, which
    tells nothing. Raises `sqlite3.Error`."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'epochs'").fetchone():
        return []
    found = connection.execute("SELECT start, id FROM epochs ORDER BY start")
    return [Epoch(start, id) for start, id in found if isinstance(id, str)]


def tag_for(epochs: Sequence[Epoch], sequence: int) -> str:
    """The newest epochs of the events before this sequence, as text; "" if they are unknown."""
    return ",".join(f"{e.start}:{e.id}" for e in [e for e in epochs if e.start < sequence][-_KEPT:])


def diverged_at(there: Sequence[Epoch], following: int, sequence: int, text: str) -> int | None:
    """None if a sequence that was kept with these epochs (`tag_for`; "" if unknown) is still valid in this shard, which
    ends before the sequence `following`. Else the first sequence whose event may differ."""
    known = [Epoch(int(start), id) for start, _, id in (part.partition(":") for part in text.split(",") if part)]
    if not known or not there or sequence <= there[0].start:
        return following if sequence > following else None
    ends = dict(zip((e.id for e in there), [*(e.start for e in there[1:]), following], strict=True))
    end = sequence
    for epoch in reversed(known):
        if epoch.id in ends:
            at = min(end, ends[epoch.id])
            return at if at < sequence else None
        end = epoch.start
    return min(there[0].start, following)


def ids(value: object) -> Mapping[str, str]:
    """The epochs that a file or a checkpoint keeps beside its sequences, by shard."""
    found = value.get(KEY) if isinstance(value, dict) else None
    return {str(shard): str(id) for shard, id in found.items()} if isinstance(found, dict) else {}
