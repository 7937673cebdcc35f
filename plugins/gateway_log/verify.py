"""Looks for faults in a log's files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from gateway_core.errors import StartError
from gateway_core.files import open_to_others

from . import meta
from .epochs import KEY
from .meta import ShardMeta
from .places import load
from .quarantine import Quarantine
from .reader import LogReader, bounds_of, described, open_read_only, position_of, shard_file, shards_in
from .rows import Rows, Unreadable, is_damage, salvage


def faults(folder: Path) -> Iterator[str]:
    """One line for each fault of a log: files that are missing, damaged, cut or older than they were, events that are
    missing or not as they were written, places out of range, files that other users may read. Works while a gateway
    runs."""
    try:
        known = meta.read(folder)
    except StartError as e:
        yield str(e).removeprefix("log: ")
        known = meta.Meta()
    for shard in sorted({*shards_in(folder), *map(int, known.shards)}):
        for fault in shard_faults(folder, shard, known.shard(shard)):
            yield f"{shard_file(folder, shard).name}: {fault}"
    for path in sorted((folder / "readers").glob("*.json")):
        for fault in _reader(folder, path):
            yield f"readers/{path.name}: {fault}"
    for path in open_to_others(folder):
        yield f"{path.relative_to(folder)}: other users may read or change it: `chmod go= {path}`"


def shard_faults(folder: Path, shard: int, known: ShardMeta | None = None) -> Iterator[str]:
    """Those of one shard."""
    path = shard_file(folder, shard)
    size = path.stat().st_size if path.exists() else -1
    if size <= 0:
        if known is not None:
            yield f"is {'missing' if size < 0 else 'empty'}, although it had all events before {known.next}"
        return
    if known is not None and known.damaged:
        yield f"is damaged ({known.damaged}): nothing more is written to it"
    with path.open("rb") as f:
        page = int.from_bytes(f.read(18)[16:])
    if page and (over := size % page):
        yield f"is cut: {over} bytes at its end are no whole page"
    quarantine = Quarantine(folder, [shard], lambda _, found: None)
    try:
        with closing(open_read_only(path)) as connection:
            yield from _content(connection, shard, known, quarantine)
    except (sqlite3.Error, ValueError) as e:
        yield str(e)


def _content(
    connection: sqlite3.Connection, shard: int, known: ShardMeta | None, quarantine: Quarantine
) -> Iterator[str]:
    try:
        connection.execute("BEGIN")  # one snapshot for all that follows
        for (line,) in connection.execute("PRAGMA integrity_check"):
            if line != "ok":
                yield str(line)
    except sqlite3.Error as e:
        if not is_damage(e):
            raise
        yield str(e)
        salvage(connection)
    first, following = bounds_of(connection)
    if known is not None and following < known.next:
        yield f"ends before event {following}, although it had all events before {known.next}"
    found: list[Unreadable] = []
    rows = Rows(connection, position_of(shard, 0), found.append)
    while first < following:
        _, first = rows.read(first, following)
        for unreadable in found:
            # what a repair has left out is known
            if unreadable.raw is not None or unreadable.page or not quarantine.has(shard, unreadable):
                yield described(unreadable)
        found.clear()
    routed, places = load(connection)
    if not 1 <= routed <= following:
        yield f"the routed end {routed} is not between 1 and {following}"
    for name, place in places.items():
        ends = (*place.pending, place.next if place.next is not None else routed)
        if not all(1 <= end <= following for end in ends):
            yield f"the place of {name!r} is not between 1 and {following}"


def _reader(folder: Path, path: Path) -> Iterator[str]:
    try:
        places = json.loads(path.read_text())
        known = {s: p for s, p in places.items() if s != KEY} if isinstance(places, dict) else None
        if known is None or not all(type(p) is int and p > 0 for p in known.values()):
            yield "is not a mapping of shards to sequences"
            return
        with LogReader(folder) as reader:
            for shard, place in known.items():
                end = reader.bounds(int(shard))[1]
                if place > end:
                    yield f"the place {place} in shard {shard} is behind its end {end}"
    except (OSError, ValueError, sqlite3.Error, StartError) as e:
        yield str(e)
