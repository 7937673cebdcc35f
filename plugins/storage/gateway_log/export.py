"""Events as JSON lines: the structured form of the CloudEvents JSON format (json-format.md section 3), with their
positions in the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway_cloudevents.event_json import line

from gateway_core.contract.event import Event

from .reader import LogReader

_CHUNK = 1000


def events(folder: Path, shard: int | None, start: int, end: int | None, type_: str | None) -> Iterator[Event]:
    """The events of a log (or one shard) with `start <= sequence < end`, of one type or all. Works while a gateway
    runs; stops at the end that the log had at the start."""
    with LogReader(folder) as reader:
        for number in reader.shards() if shard is None else [shard]:
            first, following = reader.bounds(number)
            at, last = max(start, first), following if end is None else min(end, following)
            while at < last:
                rows = list(reader.read(number, at, last, _CHUNK))
                if not rows:
                    break
                at = rows[-1].sequence + 1
                for event in reader.events(number, rows):
                    if type_ is None or event.attributes.get("type") == type_:
                        yield event


def line_of(event: Event) -> str:
    """One event as a line of JSON, with its position as `tidegateposition`. Its data is JSON as it came, to the last
    digit."""
    return f'{line(event)[:-1].decode()},"tidegateposition":{event.position}}}'
