"""Finds an event by its id: there is no index of ids, so the files are searched backwards from the newest events."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from gateway_core.contract.capabilities import Found
from gateway_core.contract.event import Event

from .reader import LogReader, to_event

WINDOW = 20_000
"""The number of events searched between two checks of the clock."""


def find(
    folder: Path, id: str, source: str | None, rest: Mapping[str, int] | None = None, within_s: float = 0.5
) -> Found:
    """A step of a search, see `gateway_core.contract.capabilities.Searchable`; `rest` has for each shard the sequence
    before which to continue. It blocks: call it in a thread. Raises `sqlite3.Error`."""
    until = time.monotonic() + within_s
    found: list[Event] = []
    searched = 0
    with LogReader(folder) as reader:
        ends = _ends(reader, rest)
        while ends:
            for shard, end in list(ends.items()):
                first = reader.bounds(shard)[0]
                start = max(first, end - WINDOW)
                found += _matching(reader, shard, start, end, id, source)
                searched += max(0, end - start)
                ends[shard] = start
                if start <= first:
                    del ends[shard]
            if found or time.monotonic() >= until:
                break
    found.sort(key=lambda event: event.received_ns, reverse=True)
    return Found(found, searched, {str(shard): end for shard, end in ends.items()} or None)


def _ends(reader: LogReader, rest: Mapping[str, int] | None) -> dict[int, int]:
    if rest is not None:
        return {int(shard): end for shard, end in rest.items()}
    return {shard: reader.bounds(shard)[1] for shard in reader.shards()}


def _matching(reader: LogReader, shard: int, start: int, end: int, id: str, source: str | None) -> Iterator[Event]:
    texts = [msgspec.json.encode(value).decode() for value in (id, source) if value is not None]
    for row in reader.having(shard, start, end, texts):
        event = to_event(shard, row)
        attributes = event.attributes
        # CloudEvents 0.1 calls it eventID
        if id in (attributes.get("id"), attributes.get("eventID")) and source in (None, attributes.get("source")):
            yield event
