"""Past events again: which of a time there are, and reading them, for replays (`contract.replayable`). Everything
here blocks: call it in a thread."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Container, Mapping
from pathlib import Path

from gateway_core.contract.event import Event, split_position
from gateway_core.contract.replayable import Stretch

from . import readers
from .cursor import Place
from .reader import LogReader
from .starts import SLACK_NS, roughly_at

_NEVER = 2**63 - 1
MOST_BYTES = 4 * 1024 * 1024
"""Of data that is read at once; one event may be larger."""
TURN, TURN_S = 16, 0.0002
"""After so many events the reading thread sleeps: the event loop would wait longer for the lock that it holds."""
KEPT = "replay "
"""The prefix of the readers that keep events for replays; the name of a trigger has no space."""


def stretch(folder: Path, from_ns: int, to_ns: int) -> Stretch:
    """See `Replayable.stretch`. Raises `sqlite3.Error`."""
    parts: dict[int, tuple[int, int]] = {}
    oldest, since, deleted = [], [0], False
    with LogReader(folder) as reader:
        for shard in reader.shards():
            first, end = reader.bounds(shard)
            row = next(reader.read(shard, first, end, 1), None)
            if row is not None:
                oldest.append(row.received_ns)
            if first > 1:
                deleted = True
                since += [row.received_ns] if row is not None else []
            low = roughly_at(reader, shard, from_ns - SLACK_NS, first, end)
            parts[shard] = low, max(low, roughly_at(reader, shard, to_ns + SLACK_NS, low, end))
    if deleted and not oldest:
        return Stretch(parts, 0, _NEVER)
    return Stretch(parts, min(oldest, default=0), max(since))


def read(folder: Path, shard: int, first: int, end: int, most: int) -> tuple[list[Event], int]:
    """See `Replayable.read_again`. Raises `sqlite3.Error`."""
    with LogReader(folder) as reader:
        first = max(first, reader.bounds(shard)[0])
        until = min(end, first + most)
        if first >= end:
            return [], end
        found, size = [], 0
        for event in reader.events(shard, reader.read(shard, first, until)):
            found.append(event)
            if len(found) % TURN == 0:
                time.sleep(TURN_S)
            size += len(event.data or b"")
            if size >= MOST_BYTES:
                return found, min(until, split_position(event.position)[1] + 1)
        return found, until


def places(folder: Path, name: str, but: Container[int]) -> dict[int, Place]:
    """How far a subscription is in the other shards. Raises `sqlite3.Error`."""
    with LogReader(folder) as reader:
        try:
            return {shard: reader.place(shard, name) for shard in reader.shards() if shard not in but}
        except ValueError as e:
            raise sqlite3.DatabaseError(f"can't read the cursors of triggers: {e}") from e


def given_up(folder: Path, name: str, firsts: Mapping[int, int]) -> dict[int, list[int]]:
    """By shard, the sequences from these on that a subscription gave up, and nobody has delivered. Raises
    `sqlite3.Error`."""
    with LogReader(folder) as reader:
        return {shard: reader.undelivered_from(shard, name, first) for shard, first in firsts.items()}


def keep(folder: Path, name: str, firsts: Mapping[int, int] | None) -> None:
    """See `Replayable.keep`: a reader holds the events. Raises `OSError` and `StartError`."""
    name = KEPT + name
    if firsts is None:
        readers.forget(folder, name)
        return
    with LogReader(folder) as reader:
        offsets = {str(s): firsts.get(s, reader.bounds(s)[1]) for s in reader.shards()}
    readers.attach(folder, name, lambda: offsets)
    readers.move(folder, name, offsets)


def keep_only(folder: Path, names: Container[str]) -> None:
    """See `Replayable.keep_only`. Raises `OSError`."""
    for name in readers.names(folder):
        if name.startswith(KEPT) and name.removeprefix(KEPT) not in names:
            readers.forget(folder, name)
