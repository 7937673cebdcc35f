"""Finds keys (`deduplicate`) that are neither in runs nor in the rows of a log: their runs were damaged or removed
after retention had deleted the events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from . import schema
from .key_runs import Generation, files_in, missing
from .other_keys import key_folders
from .reader import LogReader, shard_file
from .schema import open_shard


def gaps(generations: Iterable[Generation], shard: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The sequences of a shard, from `start` to before `end`, that no run has."""
    runs = sorted((r.base.sequence, r.end) for g in generations for r in g.runs if r.base.shard == shard)
    for begins, ends in (*runs, (end, end)):
        if start < min(begins, end):
            yield start, min(begins, end)
        start = max(start, ends)


def lost_keys(
    reader: LogReader, folders: Sequence[Sequence[Generation]], since_ms: int
) -> Iterator[tuple[int, int, int]]:
    """The shard, and its sequences from one to before another, whose keys are lost although they may be of events that
    came after this time (Unix time, ms). `folders` are the generations of each folder, the oldest first. Raises
    `sqlite3.Error`."""
    shards = reader.shards()
    all_of_them = [generation for folder in folders for generation in folder]
    parts = [part for folder in folders for part in missing(folder, shards)]
    for shard in shards:
        gone, ns = reader.keys_gone(shard) if reader.has_keys(shard) else (1, 0)
        if ns // 1_000_000 <= since_ms:
            continue
        sealed = max((r.end for g in all_of_them for r in g.runs if r.base.shard == shard), default=1)
        wanted = {(sealed, gone), *((start, min(end, gone)) for of, start, end in parts if of == shard)}
        found = {gap for start, end in wanted for gap in gaps(all_of_them, shard, start, end)}
        yield from ((shard, first, before) for first, before in sorted(found))


def accept(folder: Path) -> Iterator[str]:
    """Lets a log start without the keys that are lost; yields a line for each part. Raises `OSError` and
    `sqlite3.Error`."""
    with ExitStack() as held:
        reader = held.enter_context(LogReader(folder))
        folders = [[Generation.read_only(path) for path in files_in(keys)] for keys in key_folders(folder).values()]
        for generation in [g for of in folders for g in of]:
            held.callback(generation.close)
            generation.read_all()
        lost = list(lost_keys(reader, folders, 0))
    for shard, first, before in lost:
        yield (
            f"{shard_file(folder, shard).name}: the keys of events {first} to {before - 1} are lost: events that were"
            " stored before are stored again if they are sent again"
        )
    for shard in {shard for shard, *_ in lost}:
        with closing(open_shard(shard_file(folder, shard))) as connection:
            schema.forget_gone(connection)
