"""Checks a log's files for faults."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from gateway_core.contract.errors import StartError
from gateway_core.contract.event import position_of
from gateway_core.contract.private_files import open_to_others

from . import meta
from .cursor import load_cursors
from .epochs import KEY
from .key_runs import FOLDER, faults_in
from .meta import ShardMeta
from .quarantine import Quarantine
from .reader import LogReader, bounds_of, described, open_read_only, shard_file, shards_in
from .readers import BEGAN
from .rows import Rows, Unreadable, is_damage, salvage
from .wal_file import has_wal


def faults(folder: Path) -> Iterator[str]:
    """One line for each fault of a log: files that are missing, damaged, truncated or outdated, events that are missing
    or altered, cursors out of range, files that other users can read. Works while a gateway runs."""
    try:
        known = meta.read(folder)
    except StartError as e:
        yield str(e).removeprefix("log: ")
        known = meta.Meta()
    for shard in sorted({*shards_in(folder), *map(int, known.shards)}):
        for fault in shard_faults(folder, shard, known.shard(shard)):
            yield f"{shard_file(folder, shard).name}: {fault}"
    for path in sorted((folder / FOLDER).glob("*.runs")):
        yield from (f"{FOLDER}/{path.name}: {fault}" for fault in _keys(path))
    for path in sorted((folder / "readers").glob("*.json")):
        for fault in _reader(folder, path):
            yield f"readers/{path.name}: {fault}"
    for path in open_to_others(folder):
        yield f"{path.relative_to(folder)}: other users may read or change it: `chmod go= {path}`"


def shard_faults(folder: Path, shard: int, known: ShardMeta | None = None) -> Iterator[str]:
    """The faults of one shard."""
    path = shard_file(folder, shard)
    size = path.stat().st_size if path.exists() else -1
    if size <= 0:
        if known is not None:
            yield f"is {'missing' if size < 0 else 'empty'}, although it had all events before {known.next}"
        return
    if known is not None and known.damaged:
        yield f"is damaged ({known.damaged}): it is no longer written"
    with path.open("rb") as f:
        page = int.from_bytes(f.read(18)[16:])
    # a power failure during a checkpoint leaves half a page, which the write-ahead log still has
    if page and (over := size % page) and not has_wal(path):
        yield f"is truncated: the {over} bytes at its end are not a whole page"
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
            # events that a repair has left out are known
            if unreadable.raw is not None or unreadable.page or not quarantine.has(shard, unreadable):
                yield described(unreadable)
        found.clear()
    routed, cursors = load_cursors(connection)
    if not 1 <= routed <= following:
        yield f"the routed end {routed} is not between 1 and {following}"
    for name, state in cursors.items():
        ends = (*state.pending, state.next if state.next is not None else routed)
        if not all(1 <= end <= following for end in ends):
            yield f"the cursor of {name!r} is not between 1 and {following}"


def _keys(path: Path) -> Iterator[str]:
    try:
        yield from faults_in(path)
    except FileNotFoundError:  # the gateway has dropped old keys
        pass
    except OSError as e:
        yield f"can't be read: {e.strerror}"


def _reader(folder: Path, path: Path) -> Iterator[str]:
    try:
        cursors = json.loads(path.read_text())
        known = {s: p for s, p in cursors.items() if s not in (KEY, BEGAN)} if isinstance(cursors, dict) else None
        if known is None or not all(type(p) is int and p > 0 for p in known.values()):
            yield "is not a mapping of shards to sequences"
            return
        with LogReader(folder) as reader:
            for shard, offset in known.items():
                end = reader.bounds(int(shard))[1]
                if offset > end:
                    yield f"the offset {offset} in shard {shard} is after its end {end}"
    except (OSError, ValueError, sqlite3.Error, StartError) as e:
        yield str(e)
