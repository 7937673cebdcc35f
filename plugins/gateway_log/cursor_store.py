"""The cursors of subscriptions, as stored in a shard's file.

Table `feeds` has one row for each subscription: all events before `place` are processed, except the sequences in
`pending`. `place` is NULL if the subscription has kept up: then it stands for the `routed` value of table `meta`.
`routed` and the rows that change with it are written in one transaction, so an idle subscription needs no write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

MAX_PENDING = 1024
"""The most pending events that are stored one by one; the events after them are offered to the subscriber again."""


class CursorState(NamedTuple):
    """The state of a cursor: `next` is None if the subscription has kept up."""

    next: int | None
    pending: tuple[int, ...] = ()


class CursorChanges(NamedTuple):
    """The changes of one shard to write: its routed end, and the cursors that changed."""

    shard: int
    routed: int
    cursors: Sequence[tuple[str, CursorState]]


def load(connection: sqlite3.Connection) -> tuple[int, dict[str, CursorState]]:
    """The routed end and all cursors. Raises `sqlite3.Error`, and `msgspec.DecodeError` for a damaged row."""
    found = connection.execute("SELECT value FROM meta WHERE name = 'routed'").fetchone()
    rows = connection.execute("SELECT name, place, pending FROM feeds")
    cursors = {
        name: CursorState(state, tuple(msgspec.json.decode(pending, type=list[int])) if pending else ())
        for name, state, pending in rows
    }
    return (found[0] if found else 1), cursors


def rewind(cursors: dict[str, CursorState], routed: int, first: int, following: int) -> list[str]:
    """Resets cursors with impossible values to the first event. Returns the names of their subscriptions."""
    wrong = []
    for name, state in cursors.items():
        ends = (*state.pending, state.next if state.next is not None else routed)
        if not all(1 <= end <= following for end in ends):
            cursors[name] = CursorState(first)
            wrong.append(name)
    return wrong


def save(connection: sqlite3.Connection, changes: CursorChanges) -> None:
    """Writes the changes; call it in a transaction."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('routed', ?)", (changes.routed,))
    if changes.cursors:
        connection.executemany(
            "INSERT OR REPLACE INTO feeds VALUES (?, ?, ?)",
            [(n, p.next, msgspec.json.encode(p.pending).decode() if p.pending else None) for n, p in changes.cursors],
        )
