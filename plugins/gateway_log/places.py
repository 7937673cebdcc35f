"""Where subscriptions are in a shard, as the file has it.

Table `feeds`, one row a subscription: all before `place` is dealt with, but for the sequences in `pending`. `place` is
NULL where the subscription has kept up: it then stands for the `routed` value of table `meta`. `routed` and the rows
that change with it are written in one transaction, so a subscription to which nothing happens needs no write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

MOST_PENDING = 1024
"""Pending events written one by one; what lies behind the last of them is given to the subscriber again."""


class Place(NamedTuple):
    """Where a subscription is: `next` is None where it has kept up."""

    next: int | None
    pending: tuple[int, ...] = ()


class Changes(NamedTuple):
    """What to write about one shard: its routed end, and the subscriptions that changed."""

    shard: int
    routed: int
    places: Sequence[tuple[str, Place]]


def load(connection: sqlite3.Connection) -> tuple[int, dict[str, Place]]:
    """The routed end and all places. Raises `sqlite3.Error`, and `msgspec.DecodeError` for a row that is damaged."""
    found = connection.execute("SELECT value FROM meta WHERE name = 'routed'").fetchone()
    rows = connection.execute("SELECT name, place, pending FROM feeds")
    places = {
        name: Place(place, tuple(msgspec.json.decode(pending, type=list[int])) if pending else ())
        for name, place, pending in rows
    }
    return (found[0] if found else 1), places


def rewind(places: dict[str, Place], routed: int, first: int, following: int) -> list[str]:
    """Puts subscriptions that can't be where they are said to be to the first event. Returns their names."""
    wrong = []
    for name, place in places.items():
        ends = (*place.pending, place.next if place.next is not None else routed)
        if not all(1 <= end <= following for end in ends):
            places[name] = Place(first)
            wrong.append(name)
    return wrong


def save(connection: sqlite3.Connection, changes: Changes) -> None:
    """Writes the changes; call it inside a transaction."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('routed', ?)", (changes.routed,))
    if changes.places:
        connection.executemany(
            "INSERT OR REPLACE INTO feeds VALUES (?, ?, ?)",
            [(n, p.next, msgspec.json.encode(p.pending).decode() if p.pending else None) for n, p in changes.places],
        )
