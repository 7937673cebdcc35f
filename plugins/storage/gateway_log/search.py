"""Finds events by their attributes: there is no index, so the files are searched backwards from the newest events."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

import msgspec

from gateway_core.contract.capabilities import Found, GivenUp, GivenUpCount
from gateway_core.contract.event import Event, position_of, split_position

from .reader import LogReader
from .starts import SLACK_NS, roughly_at

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
    for event in reader.events(shard, reader.having(shard, start, end, texts)):
        attributes = event.attributes
        # CloudEvents 0.1 calls it eventID
        if id in (attributes.get("id"), attributes.get("eventID")) and source in (None, attributes.get("source")):
            yield event


def browse(
    folder: Path,
    wanted: Mapping[str, str],
    since_ns: int,
    until_ns: int,
    rest: Mapping[str, int] | None = None,
    most: int = 50,
    within_s: float = 0.5,
) -> Found:
    """A step of a search, see `gateway_inspect.browse.Browsable`; `rest` is as for `find`. It blocks: call it in a
    thread. Raises `sqlite3.Error`."""
    until = time.monotonic() + within_s
    found: list[Event] = []
    searched = 0
    # a prefix's JSON without its closing quote begins the value's JSON
    texts = [
        msgspec.json.encode(value.removesuffix("*")).decode()[: -1 if value.endswith("*") else None]
        for value in wanted.values()
    ]
    with LogReader(folder) as reader:
        ends = _ends(reader, rest)
        if rest is None:
            ends = {shard: roughly_at(reader, shard, until_ns + SLACK_NS, *reader.bounds(shard)) for shard in ends}
        firsts = {shard: roughly_at(reader, shard, since_ns - SLACK_NS, *reader.bounds(shard)) for shard in ends}
        each = max(1, most // max(1, len(ends)))
        while ends and len(found) < most:
            for shard, end in list(ends.items()):
                start, count = max(firsts[shard], end - WINDOW), 0
                ends[shard] = min(start, end)
                for event in reader.events(shard, reader.having(shard, start, end, texts)):
                    if since_ns <= event.received_ns < until_ns and _agrees(event, wanted):
                        found.append(event)
                        count += 1
                    if count >= each or time.monotonic() >= until:
                        ends[shard] = split_position(event.position or 0)[1]
                        break
                searched += end - ends[shard]
                if ends[shard] <= firsts[shard]:
                    del ends[shard]
            if time.monotonic() >= until:
                break
    found.sort(key=lambda event: event.received_ns, reverse=True)
    return Found(found, searched, {str(shard): end for shard, end in ends.items()} or None)


def at(folder: Path, position: int) -> Event | None:
    """The event at a position, None if it is not there. It blocks. Raises `sqlite3.Error`."""
    shard, sequence = split_position(position)
    with LogReader(folder) as reader:
        return next(reader.events(shard, reader.read(shard, sequence, sequence + 1)), None)


def given_up(folder: Path, position: int) -> Mapping[str, GivenUp]:
    """See `gateway_core.contract.capabilities.TellsGivenUp`. It blocks. Raises `sqlite3.Error`."""
    shard, sequence = split_position(position)
    with LogReader(folder) as reader:
        return reader.given_up(shard, sequence)


def given_up_counts(folder: Path) -> list[GivenUpCount]:
    """The same of all shards, added up. It blocks. Raises `sqlite3.Error`."""
    found: dict[tuple[str, str], GivenUpCount] = {}
    with LogReader(folder) as reader:
        for shard in reader.shards():
            for each in reader.given_up_counts(shard):
                before = found.get((each.name, each.to), each)
                count = each.count + (0 if before is each else before.count)
                last = max(each.last, before.last, key=lambda given_up: given_up.at_ns)
                found[each.name, each.to] = GivenUpCount(each.name, each.to, count, last)
    return list(found.values())


def redelivered(folder: Path) -> dict[tuple[str, int], GivenUp]:
    """See `gateway_core.contract.capabilities.TellsRedelivered`. It blocks. Raises `sqlite3.Error`."""
    with LogReader(folder) as reader:
        return {
            (name, position_of(shard, sequence)): facts
            for shard in reader.shards()
            for sequence, name, facts in reader.redelivered(shard)
        }


def given_up_by(folder: Path, name: str, wanted: Container[tuple[str, str]]) -> dict[tuple[str, str], list[int]]:
    """See `gateway_core.contract.capabilities.FindsGivenUp`. It blocks. Raises `sqlite3.Error`."""
    found: dict[tuple[str, str], list[int]] = {}
    with LogReader(folder) as reader:
        for shard in reader.shards():
            for event in reader.undelivered(shard, name):
                attributes = event.attributes
                key = str(attributes.get("source")), str(attributes.get("id") or attributes.get("eventID"))
                if key in wanted:
                    found.setdefault(key, []).append(event.position)
    return found


def _agrees(event: Event, wanted: Mapping[str, str]) -> bool:
    for name, value in wanted.items():
        own = str(event.attributes.get(name, ""))
        if not (own.startswith(value[:-1]) if value.endswith("*") else own == value):
            return False
    return True
