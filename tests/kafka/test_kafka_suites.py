"""The suites of `gateway_testing.suites`, on Kafka's channel, sink and source, with both clients.

What is in a topic and in a group is looked up with librdkafka alone.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import anyio.to_thread
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from gateway_cloudevents.bindings import KAFKA
from gateway_java.kafka import KafkaBroker
from gateway_testing.suites import ChannelSuite, Kit, MemoryIntake, Remote, SinkSuite, SourceSuite
from gateway_testing.suites.kit import PATIENCE_S, until
from gateway_testing.vectors import Vector

from gateway_core.contract.capabilities import Watched
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Channel, Sink, Source
from tests.kafka_broker import TWIN_CLIENTS, producer

SETTLED_S = 0.4  # eight times the interval of commits


def name_of(folder: Path) -> str:
    """A topic's name, for each test another."""
    return f"suite-{uuid5(NAMESPACE_URL, str(folder)).hex[:12]}"


class KafkaKit(Kit):
    """A kit with a cluster, and a consumer of the group that has the topic's name."""

    def __init__(self, folder: Path, broker: KafkaBroker) -> None:
        super().__init__(folder)
        self.broker = broker
        self.topic = name_of(folder)
        self.producer: Producer | None = None
        self.consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": self.topic, "enable.auto.commit": False}
        )

    def close(self) -> None:
        """Before the broker ends: librdkafka would go on looking for it."""
        self.consumer.close()
        self.producer = None


class Clients:
    """Both clients, and a kit with the broker."""

    @pytest.fixture(params=TWIN_CLIENTS)
    def kit(self, request: pytest.FixtureRequest, tmp_path: Path, kafka: KafkaBroker) -> Iterator[KafkaKit]:
        self.client = request.param
        kit = KafkaKit(tmp_path, kafka)
        yield kit
        kit.close()

    def options(self, kit: Kit, **more: Any) -> dict[str, Any]:
        assert isinstance(kit, KafkaKit)
        return {"bootstrap": kit.broker.bootstrap, "client": self.client, "topic": kit.topic, **more}


QUICKLY = {"commit_interval_s": 0.05, "drain_s": 1}


class TestKafkaChannel(Clients, ChannelSuite):
    ordered = each_place = typed = counts = False
    partitions = 3

    def build(self, kit: Kit) -> Channel:
        more = {"group_prefix": name_of(kit.folder), "partitions": self.partitions, **QUICKLY}
        return kit.channel("kafka", self.options(kit, **more))


class TestKafkaChannelOfOnePartition(TestKafkaChannel):
    ordered = True
    partitions = 1


class Topic:
    """The remote side of the Kafka sink."""

    def __init__(self, kit: KafkaKit) -> None:
        kit.broker.create_topic(kit.topic, 2)
        self._consumer = kit.consumer
        self._partitions = [TopicPartition(kit.topic, n, 0) for n in range(2)]

    def __enter__(self) -> Topic:
        return self

    def __exit__(self, *error: object) -> None:
        return

    def events(self) -> list[Event]:
        self._consumer.assign(self._partitions)
        count = sum(self._consumer.get_watermark_offsets(p, timeout=PATIENCE_S)[1] for p in self._partitions)
        found = self._consumer.consume(count, PATIENCE_S) if count else []
        assert len(found) == count
        return [_event(record) for record in found]


def _event(record: Any) -> Event:
    """As the Kafka binding says, section 3.2: binary mode."""
    attributes = {}
    for name, value in record.headers() or []:
        attributes["datacontenttype" if name == "content-type" else name.removeprefix("ce_")] = value.decode()
    return Event(attributes, record.value(), key=record.key())


class TestKafkaSink(Clients, SinkSuite):
    def remote(self, kit: Kit) -> Topic:
        assert isinstance(kit, KafkaKit)
        return Topic(kit)

    def build(self, kit: Kit, remote: Remote) -> Sink:
        return kit.sink("kafka", self.options(kit))


class TestKafkaSource(Clients, SourceSuite):
    pulls = True
    its: KafkaKit
    source: Watched
    intake: MemoryIntake

    def build(self, kit: Kit) -> Source:
        assert isinstance(kit, KafkaKit)
        self.its = kit
        kit.broker.create_topic(kit.topic, 1)
        kit.producer = producer(kit.broker.bootstrap, **{"linger.ms": 0})
        more = {"group": kit.topic, "start": "earliest", "not_an_event": "drop", **QUICKLY}
        return kit.source("kafka", self.options(kit, **more))

    @asynccontextmanager
    async def running(self, kit: Kit) -> AsyncIterator[tuple[Source, MemoryIntake]]:
        async with super().running(kit) as (source, self.intake):
            assert isinstance(source, Watched)
            self.source = source
            await until(self._reads, "the group to be joined")
            yield source, self.intake

    async def send(self, source: Source, vector: Vector) -> bool:
        return await self._written(vector.binary(KAFKA))

    async def nonsense(self, source: Source) -> bool:
        return await self._written(Message([], b"{nonsense"))

    def _reads(self) -> bool:
        return bool(self.source.info()["partitions"])

    async def _written(self, message: Message) -> bool:
        """Whether the group's committed offset passes the record."""
        return await anyio.to_thread.run_sync(self._passes, self._write(message))

    def _write(self, message: Message) -> int:
        assert self.its.producer is not None
        offsets: list[int | None] = []
        headers: list[tuple[str, str | bytes | None]] = [(name.decode(), value) for name, value in message.headers]
        self.its.producer.produce(
            self.its.topic, message.body, headers=headers, on_delivery=lambda e, r: offsets.append(r.offset())
        )
        self.its.producer.flush(PATIENCE_S)
        assert offsets[0] is not None
        return offsets[0]

    def _passes(self, offset: int) -> bool:
        start = time.monotonic()
        while True:
            (place,) = self.its.consumer.committed([TopicPartition(self.its.topic, 0)], timeout=PATIENCE_S)
            if place.offset > offset:
                return True
            waited = time.monotonic() - start
            if waited > PATIENCE_S or (waited > SETTLED_S and self._fails()):
                return False
            time.sleep(0.01)

    def _fails(self) -> bool:
        """Whether it is meant to fail: the intake takes nothing (and was asked), or the source has stopped."""
        return not self._reads() or (self.intake.result is not None and len(self.intake.events) > 0)
