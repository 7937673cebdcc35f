"""Repairs a log that no gateway uses: keeps everything readable, and reports what is lost.

The new file of a shard is built beside the old one, which is kept under another name. An interrupted repair is finished
by the next one.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from gateway_core.contract.errors import StartError
from gateway_core.contract.event import position_of
from gateway_core.contract.private_files import keep_private, open_to_others, sync_directory

from . import damaged_cursors, delay_repair, epochs, given_up, lost_keys, meta, readers, schema
from .checksum import checksum
from .cursor import CursorChanges, rewind_cursors, saving
from .damaged_cursors import unfinished_repair
from .delay_file import delay_files
from .quarantine import Quarantine
from .reader import LogReader, described, known_bounds, shard_file, shards_in
from .repaired_file import put_in_place, remove
from .rows import Row, Unreadable
from .schema import open_shard
from .shard import lock
from .verify import shard_faults

_CHUNK = 1000
_INSERT = (
    "INSERT INTO events (sequence, received_ns, flags, key, attributes, data, checksum)"
    " VALUES (?, ?, ?, ?, CAST(? AS TEXT), ?, ?)"
)


def repair(folder: Path) -> Iterator[str]:
    """Repairs a log; yields a line for each action. Raises `StartError` if a gateway uses it, and `OSError` or
    `sqlite3.Error` if the disk can't be written."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    with ExitStack() as held:
        for shard in sorted({*shards_in(folder), *map(delay_repair.shard_of, delay_files(folder))}):
            held.callback(os.close, lock(folder, shard))
        if open_to_others(folder):
            keep_private(folder)
            yield "removed other users' access to the log's files"
        known = _known(folder, stamp)
        if isinstance(known, str):
            yield known
            known = meta.Meta()
        for shard in sorted({*shards_in(folder), *map(int, known.shards)}):
            yield from _shard(folder, shard, known.shard(shard), stamp)
        yield from lost_keys.accept(folder)
        for path in delay_files(folder):
            yield from delay_repair.repair(folder, path, stamp)
        yield from readers.repair(folder)


def _known(folder: Path, stamp: str) -> meta.Meta | str:
    try:
        return meta.read(folder)
    except StartError:
        aside = meta.put_aside(folder, stamp)
        return f"meta.json could not be read: it was moved to {aside} and recreated from the shards' files"


def _shard(folder: Path, shard: int, known: meta.ShardMeta | None, stamp: str) -> Iterator[str]:
    path = shard_file(folder, shard)
    if unfinished_repair(folder, shard).exists():
        aside = _replace(folder, shard, stamp)
        yield f"{path.name}: finished a repair that was interrupted; the old file is {aside.name}"
        return
    if known is not None and (not path.exists() or not path.stat().st_size):
        _recreate(path, known.next)
        _note(folder, shard, known.next, known.next, lost=False)
        yield (
            f"{path.name}: was missing or empty; a new one continues with event {known.next}; events {known.first} to"
            f" {known.next - 1} are lost"
        )
        return
    if not (known and known.damaged) and not list(shard_faults(folder, shard, known)):
        with LogReader(folder) as reader:
            _note(folder, shard, *reader.bounds(shard), lost=False)
        return
    yield from _salvage(folder, shard, stamp)


def _salvage(folder: Path, shard: int, stamp: str) -> Iterator[str]:
    path = shard_file(folder, shard)
    lost: list[Unreadable] = []
    quarantine = Quarantine(folder, [shard], lambda _, found: None)
    new = folder / f"{path.name}.repairing"
    remove(new)
    first, following = known_bounds(folder, shard)
    routed, found, cursors_lost = damaged_cursors.load(folder, shard, first)
    wrong = rewind_cursors(found, routed, first, following)

    def report(_: int, unreadable: Unreadable) -> None:
        lost.append(unreadable)
        quarantine.report(shard, unreadable)

    kept, last = 0, first - 1
    with closing(open_shard(new)) as target, LogReader(folder, report) as reader:
        if reader.has_keys(shard):
            schema.add_keys(target)
            _copy_kept_keys(reader, shard, target)
            with suppress(sqlite3.DatabaseError):
                schema.note_gone(target, *reader.keys_gone(shard))
        for rows in _parts(reader, shard, first, following, lost):
            kept, last = kept + len(rows), max([last, *(r.sequence for r in rows)])
            target.execute("BEGIN")
            target.executemany(_INSERT, [(*r, checksum(position_of(shard, r.sequence), *r[1:])) for r in rows])
            _copy_keys(reader, shard, rows, target)
            target.execute("COMMIT")
        told = max([last, *(u.last for u in lost)])
        if told < following - 1:
            report(shard, Unreadable(told + 1, following - 1, "the file ends before"))
        cursors = [] if cursors_lost else list(found.items())
        target.executescript(saving(CursorChanges(shard, min(routed, following), cursors)))
        target.execute("INSERT OR REPLACE INTO meta VALUES ('next', ?)", (following,))
        epochs.save(target, reader.epochs(shard))
        if rows_given_up := reader.given_up_rows(shard):
            given_up.save(target, rows_given_up)
        target.execute("COMMIT")
    os.replace(new, unfinished_repair(folder, shard))
    sync_directory(folder)
    _note(folder, shard, first, following, lost=cursors_lost)
    aside = _replace(folder, shard, stamp)
    yield f"{path.name}: kept {kept} events; the damaged file is {aside.name}"
    for unreadable in lost:
        yield f"{path.name}: {described(unreadable)}"
    for name in wrong:
        yield f"{path.name}: the cursor of {name!r} was invalid: it gets the file's events again"
    if cursors_lost:
        yield f"{path.name}: the cursors of its triggers are lost: they get its events again"


def _parts(reader: LogReader, shard: int, at: int, end: int, lost: list[Unreadable]) -> Iterator[list[Row]]:
    """The readable rows, a limited number at a time."""
    try:
        rows = reader.rows(shard)
        while rows is not None and at < end:
            found, at = rows.read(at, end)
            yield found
    except sqlite3.DatabaseError as e:
        lost.append(Unreadable(at, end - 1, str(e), page=True))  # even its first page is unreadable


def _copy_keys(reader: LogReader, shard: int, rows: list[Row], target: sqlite3.Connection) -> None:
    """The keys of these rows, as far as they are readable: an event without one may be stored a second time."""
    if rows and reader.has_keys(shard):
        with suppress(sqlite3.DatabaseError):
            found = [(key, n) for n, _, key in reader.keys(shard, "events", rows[0].sequence, rows[-1].sequence + 1)]
            target.executemany("UPDATE events SET deduplication = ? WHERE sequence = ?", found)


def _copy_kept_keys(reader: LogReader, shard: int, target: sqlite3.Connection) -> None:
    with suppress(sqlite3.DatabaseError):
        target.execute("BEGIN")
        target.executemany("INSERT OR REPLACE INTO kept_keys VALUES (?, ?, ?)", list(reader.keys(shard, "kept_keys")))
    if target.in_transaction:
        target.execute("COMMIT")


def _replace(folder: Path, shard: int, stamp: str) -> Path:
    """Replaces the old file by the new one."""
    aside = put_in_place(unfinished_repair(folder, shard), shard_file(folder, shard), stamp)
    with suppress(FileNotFoundError):
        damaged_cursors.cursors_file(folder, shard).unlink()
    sync_directory(folder)
    return aside


def _recreate(path: Path, following: int) -> None:
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")
    with closing(open_shard(path)) as connection:
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('next', ?)", (following,))
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('routed', ?)", (following,))


def _note(folder: Path, shard: int, first: int, following: int, *, lost: bool) -> None:
    def note(known: meta.Meta) -> None:
        known.reached(shard, first, following)
        known.shards[str(shard)].damaged = ""
        known.shards[str(shard)].cursors_lost = known.shards[str(shard)].cursors_lost or lost

    meta.change(folder, note)
