"""Looks for faults in a log's files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from .epochs import KEY
from .places import load
from .reader import LogReader, bounds_of, described, open_read_only, position_of, shard_file
from .rows import Rows, Unreadable


def faults(folder: Path) -> Iterator[str]:
    """One line for each fault of a log: damaged files, sequences that do not grow, attributes that can't be read,
    places out of range. Works while a gateway runs."""
    with LogReader(folder) as reader:
        shards = reader.shards()
    for shard in shards:
        path = shard_file(folder, shard)
        try:
            with closing(open_read_only(path)) as connection:
                for fault in _shard(connection, shard):
                    yield f"{path.name}: {fault}"
        except (sqlite3.Error, ValueError) as e:
            yield f"{path.name}: {e}"
    for path in sorted((folder / "readers").glob("*.json")):
        try:
            places = json.loads(path.read_text())
            known = {s: p for s, p in places.items() if s != KEY} if isinstance(places, dict) else None
            if known is None or not all(type(p) is int and p > 0 for p in known.values()):
                yield f"readers/{path.name}: is not a mapping of shards to sequences"
        except (OSError, ValueError) as e:
            yield f"readers/{path.name}: {e}"


def _shard(connection: sqlite3.Connection, shard: int) -> Iterator[str]:
    connection.execute("BEGIN")  # one snapshot for all that follows
    for (line,) in connection.execute("PRAGMA integrity_check"):
        if line != "ok":
            yield str(line)
    first, following = bounds_of(connection)
    found: list[Unreadable] = []
    rows = Rows(connection, position_of(shard, 0), found.append)
    while first < following:
        _, first = rows.read(first, following)
        while found:
            yield described(found.pop(0))
    routed, places = load(connection)
    if not 1 <= routed <= following:
        yield f"the routed end {routed} is not between 1 and {following}"
    for name, place in places.items():
        ends = (*place.pending, place.next if place.next is not None else routed)
        if not all(1 <= end <= following for end in ends):
            yield f"the place of {name!r} is not between 1 and {following}"
