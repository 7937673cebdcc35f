"""How the cursors of subscriptions are stored in a shard's file.

Table `feeds` has one row for each subscription: all events before `place` are processed, except the sequences in
`pending`. `place` is NULL if the subscription has kept up: then it stands for the `routed` value of table `meta`.
`routed` and the rows that change with it are written in one transaction, so an idle subscription needs no write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from . import given_up as given_up_table


class CursorState(NamedTuple):
    """The state of a cursor: `next` is None if the subscription has kept up."""

    next: int | None
    pending: tuple[int, ...] = ()


class Place(NamedTuple):
    """How far a subscription was when its cursor was last written: everything before `next` is processed, but for what
    was pending."""

    next: int
    pending: frozenset[int]

    def is_before(self, sequence: int) -> bool:
        """Whether this event is processed."""
        return sequence < self.next and sequence not in self.pending


_positions = msgspec.json.Decoder(list[int]).decode


class CursorChanges(NamedTuple):
    """The changes of one shard to write: its routed end, the cursors that changed, which events were given up, and
    where new subscriptions began."""

    shard: int
    routed: int
    cursors: Sequence[tuple[str, CursorState]]
    given_up: Sequence[given_up_table.Fate] = ()
    begun: Mapping[str, int] = {}


def load_cursors(connection: sqlite3.Connection) -> tuple[int, dict[str, CursorState]]:
    """The routed end and all cursors. Raises `sqlite3.Error`, and `ValueError` for a damaged row."""
    found = connection.execute("SELECT value FROM meta WHERE name = 'routed'").fetchone()
    routed = found[0] if found else 1
    if not isinstance(routed, int):
        raise ValueError(f"the routed end is {routed!r}")
    cursors = {}
    for name, place, pending in connection.execute("SELECT name, place, pending FROM feeds"):
        # damage that SQLite does not notice leaves columns of other types, or none
        if not isinstance(name, str) or not isinstance(place, int | None) or not isinstance(pending, str | None):
            raise ValueError(f"a cursor is {(name, place, pending)!r}")
        cursors[name] = CursorState(place, tuple(_positions(pending)) if pending else ())
    return routed, cursors


def rewind_cursors(cursors: dict[str, CursorState], routed: int, first: int, following: int) -> list[str]:
    """Resets cursors with impossible values to the first event. Returns the names of their subscriptions."""
    wrong = []
    for name, state in cursors.items():
        ends = (*state.pending, state.next if state.next is not None else routed)
        if not all(1 <= end <= following for end in ends):
            cursors[name] = CursorState(first)
            wrong.append(name)
    return wrong


def floors(cursors: Mapping[str, CursorState], routed: int) -> dict[str, int]:
    """The first sequence that each subscription still needs."""
    return {
        name: state.pending[0] if state.pending else routed if state.next is None else state.next
        for name, state in cursors.items()
    }


def saving(changes: CursorChanges | None) -> str:
    """A script that begins a transaction and writes the changes in it. `executescript` gives up Python's lock once for
    each statement, `execute` five times, and each time the writer may wait for the event loop. Names are in
    hexadecimal, so nothing in them ends the literal."""
    if changes is None:
        return "BEGIN IMMEDIATE"
    script = f"BEGIN IMMEDIATE; INSERT OR REPLACE INTO meta VALUES ('routed', {changes.routed:d});"
    if changes.cursors:
        rows = [_row(name, state) for name, state in changes.cursors]
        script += "INSERT OR REPLACE INTO feeds VALUES " + ",".join(rows)
    return script


def _row(name: str, state: CursorState) -> str:
    place = "NULL" if state.next is None else f"{state.next:d}"
    pending = f"'{msgspec.json.encode(state.pending).decode()}'" if state.pending else "NULL"
    return f"(CAST(x'{name.encode().hex()}' AS TEXT),{place},{pending})"
