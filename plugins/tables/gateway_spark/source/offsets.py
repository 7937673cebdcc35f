"""Arithmetic on offsets: {"shard": the next position to read}.

Offsets in Spark's checkpoint also have the log's epochs (`gateway_log.epochs`), {"0": 17, "epochs": {"0": "…"}}, which
detect a log that went back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Offsets = Mapping[str, int]
Wanted = str | Offsets
"""The value of the option: "earliest", "latest" or offsets."""


def parse(text: str, option: str) -> Wanted:
    """Reads the option `startingOffsets` or `endingOffsets`; raises `ValueError` naming it."""
    if text in ("earliest", "latest"):
        return text
    try:
        value = json.loads(text)
        if isinstance(value, dict):
            value.pop("epochs", None)
        if isinstance(value, dict) and all(s.isdigit() and type(p) is int and p >= 0 for s, p in value.items()):
            return {str(int(s)): p for s, p in value.items()}
    except ValueError:
        pass
    raise ValueError(f'option {option!r} must be "earliest", "latest" or JSON like {{"0": 17}}, not {text!r}')


def clamp(wanted: Wanted, absent: Offsets, end: Offsets) -> dict[str, int]:
    """Offsets for every existing shard: the requested ones, at most its end; `absent` has the offsets of shards that
    were not named."""
    if wanted == "earliest":
        return dict(absent)
    if isinstance(wanted, str):
        return dict(end)
    return {s: min(wanted.get(s, absent[s]), e) for s, e in end.items()}


def advance(start: Offsets, first: Offsets, end: Offsets, most: int | None) -> dict[str, int]:
    """The end of the next micro-batch: `end`, or after `most` positions, which shards share in proportion to what they
    have waiting. Keeps shards that no longer exist."""
    at = {s: start.get(s, 0) for s in {*start, *end}}
    # deleted events do not count
    waiting = {s: max(0, end.get(s, 0) - max(at[s], first.get(s, 0))) for s in at}
    total = sum(waiting.values())
    if most is None or total <= most:
        return {s: max(at[s], end.get(s, 0)) for s in at}
    new = dict(at)
    left = most
    for shard in sorted((s for s in at if waiting[s]), key=lambda s: waiting[s]):
        share = min(left, -(-most * waiting[shard] // total))  # rounded up, so that no shard starves
        new[shard] = max(at[shard], first.get(shard, 0)) + share
        left -= share
    return new if left < most else at


def positions(offset: Mapping[str, Any]) -> dict[str, int]:
    """The positions in an offset from Spark's checkpoint."""
    return {s: p for s, p in offset.items() if s != "epochs"}


def ranges(start: Offsets, end: Offsets, size: int) -> list[tuple[int, int, int]]:
    """(shard, first, end) for each task: a shard's range in pieces of at most `size` and about equal length."""
    found = []
    for shard, stop in sorted(end.items(), key=lambda item: int(item[0])):
        first = start.get(shard, 0)
        count = -(-(stop - first) // size)
        for n in range(count):
            low = first + (stop - first) * n // count
            high = first + (stop - first) * (n + 1) // count
            found.append((int(shard), low, high))
    return found


def of_source(found: Any) -> dict[str, int]:
    """{"shard or partition": position} from a source's offset. Kafka's are grouped by topic, and a job has one topic.
    Empty if there is none."""
    value = json.loads(found) if isinstance(found, str) else found
    if not isinstance(value, dict):
        return {}
    if any(isinstance(v, int) for v in value.values()):
        return {s: p for s, p in value.items() if isinstance(p, int)}  # a log's, with its epochs beside them
    inner = [v for name, v in value.items() if isinstance(v, dict)]
    return inner[0] if inner else {}
