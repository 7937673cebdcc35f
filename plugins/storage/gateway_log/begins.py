"""Where subscriptions began, in a shard's file: what came before was never for them.

Only those that joined when the shard had events have a row. It is written with their first cursor.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

_TABLE = "CREATE TABLE IF NOT EXISTS begins (name TEXT PRIMARY KEY, sequence INTEGER NOT NULL) WITHOUT ROWID"


def save(connection: sqlite3.Connection, begins: Mapping[str, int]) -> None:
    """Writes the first sequences of subscriptions; call it in a transaction. Raises `sqlite3.Error`."""
    connection.execute(_TABLE)
    connection.executemany("INSERT OR REPLACE INTO begins VALUES (?, ?)", begins.items())


def load(connection: sqlite3.Connection) -> dict[str, int]:
    """The first sequences, as far as they are known. Raises `sqlite3.Error`."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'begins'").fetchone() is None:
        return {}
    found = connection.execute("SELECT name, sequence FROM begins")
    return {name: at for name, at in found if isinstance(name, str) and isinstance(at, int)}  # damage has other types
