"""What a history says of Kafka: the records of each topic, and what groups did with them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from .history import Committed, History, Produced, Recreated, Taken
from .kafka_plan import FOREIGN
from .plan import Config, Event, Plan

if TYPE_CHECKING:
    from .facts import Facts

Where = tuple[str, int, int]
"""Topic, how often it was created, partition."""


@dataclass(frozen=True)
class Wrapped(Event):
    """The event that is made of a record which is none (docs/reference/kafka.md)."""

    given: tuple[tuple[str, str], ...] = ()
    value: bytes = b""

    @property
    def attributes(self) -> dict[str, str]:
        return dict(self.given)

    @property
    def data(self) -> bytes:
        return self.value


def wrapped(record: Produced, event: Event) -> Wrapped:
    """The event of a foreign record that `kafka_senders` made of this event."""
    time = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    given = {"specversion": "1.0", "id": record.id, "source": f"kafka:/{record.topic}"}
    given |= {"type": "dev.tidegate.kafka.record", "time": time.replace("+00:00", "Z")}
    given |= {"subject": event.key} if event.key else {}
    given |= {"datacontenttype": "text/plain", "kafkaheaderxforeign": event.type}
    value = event.data if event.size else b""
    return Wrapped(record.id, given["type"], "", event.size, given=tuple(given.items()), value=value)


@dataclass
class KafkaFacts:
    """`written` has the records of each partition in their order, `of` those of a topic by the id of the event."""

    plan: Plan
    history: History
    written: dict[Where, list[Produced]] = field(default_factory=lambda: defaultdict(list))
    of: dict[str, dict[str, list[Produced]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    foreign: dict[str, Wrapped] = field(default_factory=dict)
    """By the ids of the events that they become."""
    to: dict[str, str] = field(default_factory=dict)
    commits: list[Committed] = field(default_factory=list)
    recreated: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    taken: dict[tuple[str, str], float] = field(default_factory=dict)
    """When another member of a group (by the name of its broker, bridge or trigger) processed an event."""

    def __post_init__(self) -> None:
        for record in self.history.records:
            match record:
                case Produced():
                    self.written[record.topic, record.epoch, record.partition].append(record)
                    self.of[record.topic][record.id].append(record)
                    if record.send >= 0 and self.plan.sends[record.send].mode == FOREIGN:
                        send = self.plan.sends[record.send]
                        self.foreign[record.id] = wrapped(record, send.events[0])
                        self.to[record.id] = send.to
                case Committed():
                    self.commits.append(record)
                case Recreated():
                    self.recreated[record.topic].append(record.at)
                case Taken():
                    self._take(record)

    def _take(self, taken: Taken) -> None:
        records = self.written[taken.topic, taken.epoch, taken.partition]
        begin = bisect_left(records, taken.begin, key=lambda r: r.offset)
        for record in records[begin : bisect_left(records, taken.end, key=lambda r: r.offset)]:
            self.taken.setdefault((taken.group.rpartition(".")[2], record.id), taken.at)

    def sent(self, to: str) -> list[Produced]:
        """What senders wrote for a broker or bridge, if that read it all the time, without what was deleted."""
        topic = f"in-{to}"
        if any(to not in config.readers for config in self.plan.configs):
            return []
        epoch = 1 + len(self.recreated.get(topic, ()))
        every = [r for found in self.of.get(topic, {}).values() for r in found]
        return [r for r in every if r.epoch == epoch]


def channel(configs: list[Config] | tuple[Config, ...]) -> bool:
    """Whether the broker's channel was a topic at some time."""
    return any(config.kafka is not None and config.kafka.channel for config in configs)


def troubled(facts: Facts) -> bool:
    """Whether something was read from Kafka again, perhaps."""
    kinds = [s.kind for s in facts.spans]
    stops = ("freeze", "crash", "power", "restart", "reload", "bad-config", "sync-error", "disk-full", "disk-error")
    return any(kind.startswith("kafka-") or kind in stops for kind in kinds) or len(facts.lives) > 1


def channel_troubled(facts: Facts) -> bool:
    """Whether something may have been read again, or late, from the broker's channel."""
    return channel(facts.plan.configs) and troubled(facts)
