"""Where a new subscription begins in a shard.

Rows are in the order in which they were stored. Their times (`received_ns`) are those at which sources took the events,
so they grow roughly: events that wait for the same commit may be out of order, and a clock may be set back. A start at
a time is found by a binary search for a time that is `SLACK_NS` earlier, and from there row by row. So no event of this
time or later is skipped, unless the clock was set back by more than that, or an event took longer to be stored.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from gateway_core.contract.errors import StartError
from gateway_core.contract.start_position import StartPosition

from .reader import LogReader

SLACK_NS = 10_000_000_000
"""How far times may be out of order."""


def first_of(folder: Path, shard: int, start: StartPosition, first: int, end: int) -> int:
    """Where a subscription begins in a shard with the sequences from `first` until before `end`. It may block. Raises
    `StartError`."""
    if start.kind != "time":
        return _without_times(shard, start, first, end)
    try:
        with LogReader(folder) as reader:
            return at_time(reader, shard, start.time_ns, first, end)
    except sqlite3.Error as e:
        raise StartError(
            f"log: can't look up a time in {folder}: {e}; try again, or start at earliest or latest"
        ) from e


def firsts_of(folder: Path, start: StartPosition) -> dict[str, int]:
    """Where a reader begins in each shard on disk. It may block. Raises `sqlite3.Error`."""
    with LogReader(folder) as reader:
        return {str(shard): _found(reader, shard, start, *reader.bounds(shard)) for shard in reader.shards()}


def _found(reader: LogReader, shard: int, start: StartPosition, first: int, end: int) -> int:
    if start.kind == "time":
        return at_time(reader, shard, start.time_ns, first, end)
    return _without_times(shard, start, first, end)


def _without_times(shard: int, start: StartPosition, first: int, end: int) -> int:
    if start.kind == "positions":
        return start.within(shard, first, end)
    return first if start.kind == "earliest" else end


def at_time(reader: LogReader, shard: int, ns: int, first: int, end: int) -> int:
    """The sequence of the first event in `first <= sequence < end` that was received at this time or later, else `end`.
    Raises `sqlite3.Error`."""
    near = roughly_at(reader, shard, ns - SLACK_NS, first, end)
    return reader.first_since(shard, ns, near, end)


def roughly_at(reader: LogReader, shard: int, ns: int, low: int, high: int) -> int:
    """A sequence in `low <= sequence <= high` with an event before it that was received before this time (unless it is
    `low`), and an event of this time or later at it (unless it is `high`)."""
    while low < high:
        middle = (low + high) // 2
        row = next(reader.read(shard, middle, high, 1), None)
        if row is None or row.received_ns >= ns:
            high = middle
        else:
            low = row.sequence + 1
    return low
