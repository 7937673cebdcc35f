"""What is still to come at the end of a run: events that wait, as the gateway lists them, and what schedules stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gateway_log.reader import LogReader, to_event

from gateway_core.contract.capabilities import Delaying
from gateway_core.contract.event import id_of
from gateway_core.runtime.gateway import Gateway

from .history import Stored, Waits

MOST = 10_000


def waits(gateway: Gateway, at: float) -> Iterator[Waits]:
    """What the gateway lists."""
    for trigger in gateway.topology.triggers.values():
        if isinstance(trigger.feed, Delaying):
            for one in trigger.feed.not_due(None, MOST):
                yield Waits(at, trigger.name, id_of(one.event))


def due(gateway: Gateway) -> str:
    """Which trigger has events that are due, and were not begun; "" if none has."""
    for trigger in gateway.topology.triggers.values():
        if isinstance(trigger.feed, Delaying) and (count := trigger.feed.due_within((0.0,))[0]):
            return f"{trigger.name}: {count} events are due"
    return ""


def stored(data_dir: Path, at: float) -> Iterator[Stored]:
    """What a reader of the log finds."""
    found: Counter[str] = Counter()
    with LogReader(data_dir / "log" / "default") as reader:
        for shard in reader.shards():
            events = (to_event(shard, row) for row in reader.read(shard, 1))
            found.update(id_of(event) for event in events if event.attributes["type"] == "tick")
    return (Stored(at, id, count) for id, count in found.items())
