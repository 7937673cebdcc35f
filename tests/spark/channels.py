"""The channels that a table is filled from, for the tests that kill: what a channel took, and where its reader is."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from gateway_java.kafka import KafkaBroker
from gateway_log.reader import LogReader

Row = tuple[int, int, str, bytes]
"""Shard or partition, position, id and data of an event."""
LIMIT_S = 60.0


class Channel(Protocol):
    """`config` is the broker's `channel` of a gateway whose data is in `data`."""

    config: str

    def kill(self) -> None:
        """Kills what the channel runs on beside the gateway, and starts it again."""

    def taken(self, data: Path) -> Iterator[Row]:
        """All that the channel has."""

    def place(self, data: Path) -> dict[str, int]:
        """The next position that the channel has for the trigger `table`, by shard or partition."""


class Log:
    """The embedded log."""

    config = "log"

    def kill(self) -> None:
        raise AssertionError("a log runs on nothing else")

    def taken(self, data: Path) -> Iterator[Row]:
        with LogReader(str(data / "log/default")) as log:
            for shard in log.shards():
                first, end = log.bounds(shard)
                for row in log.read(shard, first, end, 1_000_000):
                    yield shard, row.sequence, json.loads(row.attributes)["id"], row.data or b""

    def place(self, data: Path) -> dict[str, int]:
        found = json.loads((data / "log/default/readers/table.json").read_text())
        return {shard: place for shard, place in found.items() if shard.isdigit()}


class Kafka:
    """A topic of three partitions, on a broker that may be killed."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.config = f"{{kafka: {{bootstrap: '{broker.bootstrap}', topic: taken, group_prefix: g, partitions: 3}}}}"
        self._broker = broker
        self._options: dict[str, Any] = {"bootstrap.servers": broker.bootstrap, "log.connection.close": False}

    def kill(self) -> None:
        self._broker.kill()
        self._broker.start()

    def taken(self, data: Path) -> Iterator[Row]:
        reading = Consumer({**self._options, "group.id": "ledger", "enable.partition.eof": True})
        try:
            found = reading.list_topics("taken", LIMIT_S).topics["taken"].partitions
            reading.assign([TopicPartition("taken", number, 0) for number in found])
            open, end = set(found), time.monotonic() + LIMIT_S
            while open:
                assert time.monotonic() < end, "the topic can't be read"
                record: Any = reading.poll(1)
                if record is None:
                    continue
                if record.error() is None:
                    id = dict(record.headers())["ce_id"].decode()
                    yield record.partition(), record.offset(), id, record.value() or b""
                elif record.error().code() == KafkaError._PARTITION_EOF:
                    open.discard(record.partition())
                else:
                    raise AssertionError(record.error())
        finally:
            reading.close()

    def place(self, data: Path) -> dict[str, int]:
        group = ConsumerGroupTopicPartitions("g.default.table")
        asking = AdminClient(self._options)
        answer = asking.list_consumer_group_offsets([group])["g.default.table"].result(LIMIT_S)
        return {str(place.partition): place.offset for place in answer.topic_partitions}
