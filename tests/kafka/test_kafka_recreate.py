"""Topics that are deleted and recreated under the same name, while they are read."""

from __future__ import annotations

import contextlib
import time
import uuid
from pathlib import Path
from typing import Any

import anyio
import pytest
from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess, Subscriber

from tests.kafka.test_kafka_consumers import LIMIT_S, member, name_of, numbered, write
from tests.kafka_broker import TWIN_CLIENTS, producer

clients = pytest.mark.parametrize("client", TWIN_CLIENTS)
OLD, NEW = 120, 216


class Topics:
    """Six topics, as an administrator sees them."""

    def __init__(self, kafka: KafkaBroker) -> None:
        self._kafka = kafka
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        self.names = [f"anew-{uuid.uuid4().hex[:8]}-{number}" for number in range(6)]

    def create(self, partitions: int) -> None:
        made = self._admin.create_topics([NewTopic(name, partitions, 1) for name in self.names])
        for future in made.values():
            future.result(LIMIT_S)

    def delete(self) -> None:
        for future in self._admin.delete_topics(self.names).values():
            future.result(LIMIT_S)

    def write(self, partitions: int, count: int, prefix: str) -> None:
        writing = producer(self._kafka.bootstrap)
        for number in range(count):
            own = {"specversion": "1.0", "id": f"{prefix}-{number}", "source": "/s", "type": "t"}
            headers: list[tuple[str, str | bytes | None]] = [(f"ce_{name}", value) for name, value in own.items()]
            writing.produce(self.names[number % 6], b"x", partition=number // 6 % partitions, headers=headers)
        assert writing.flush(LIMIT_S) == 0


def recreated(kafka: KafkaBroker, folder: Path, client: str, after_s: float) -> None:
    """Six topics are deleted under a running gateway and recreated with more partitions: nothing of the new ones is
    missing, the gateway answers all the time, and it ends when it is told to."""
    topics = Topics(kafka)
    topics.create(2)
    place = f"bootstrap: '{kafka.bootstrap}', topic: [{', '.join(topics.names)}], group: {topics.names[0]}"
    with Subscriber() as subscriber:
        config = (
            "bridges:\n  one:\n"
            f"    source: {{kafka: {{{place}, client: {client}, start: earliest, session_timeout_s: 6}}}}\n"
            f"    sink: {{http: {{url: '{subscriber.url}'}}}}\n"
        )

        def arrived(prefix: str) -> int:
            ids = {request.headers["ce-id"] for request in list(subscriber.requests)}
            return len({id for id in ids if id.startswith(prefix)})

        with GatewayProcess(config, folder) as gateway:
            topics.write(2, OLD, "old")
            gateway.wait_until(lambda: arrived("old") == OLD, 60, "the events of the old topics")
            time.sleep(0.7)  # its offsets are committed
            topics.delete()
            time.sleep(after_s)
            topics.create(6)  # which fails where the gateway has made them meanwhile
            topics.write(6, NEW, "new")

            def all_there() -> bool:
                gateway.status()  # raises where it does not answer
                return arrived("new") == NEW

            gateway.wait_until(all_there, 45, "the events of the new topics")
            stopping = time.monotonic()
            assert gateway.stop() == 0
            assert time.monotonic() - stopping < 20


@pytest.mark.spec("SAFE-57", "SAFE-58")
@pytest.mark.timeout(180)
@clients
def test_topics_that_are_recreated_are_read_from_their_beginning(
    kafka: KafkaBroker, tmp_path: Path, client: str
) -> None:
    recreated(kafka, tmp_path, client, 1.5)


@pytest.mark.full
@pytest.mark.timeout(600)
@clients
def test_topics_are_recreated_again_and_again(kafka: KafkaBroker, tmp_path: Path, client: str) -> None:
    for number, after_s in enumerate((0.5, 1, 2, 3, 4.5, 6)):
        folder = tmp_path / str(number)
        folder.mkdir()
        recreated(kafka, folder, client, after_s)


def recreate(kafka: KafkaBroker, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_topics([topic])[topic].result(LIMIT_S)
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        with contextlib.suppress(Exception):
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(LIMIT_S)
            return
        time.sleep(0.02)


@pytest.mark.anyio
@pytest.mark.spec("SAFE-57")
@clients
async def test_an_old_offset_that_the_new_topic_has_too_skips_nothing(kafka: KafkaBroker, client: str) -> None:
    topic, group = name_of("same"), name_of("group")
    kafka.create_topic(topic)
    write(kafka.bootstrap, topic, numbered(10))
    async with member(client, kafka.bootstrap, group, topic) as reading:
        await reading.until(lambda: len(reading.values) == 10)
        assert reading.consumer is not None
        await reading.consumer.commit({(topic, 0): 10})
        await anyio.to_thread.run_sync(recreate, kafka, topic)
        await anyio.to_thread.run_sync(write, kafka.bootstrap, topic, numbered(30, 100))
        await reading.until(lambda: set(numbered(30, 100)) <= set(reading.values))
        reading.wrong = [wrong for wrong in reading.wrong if "after 10" not in wrong]


@pytest.mark.anyio
@pytest.mark.spec("SAFE-57")
@clients
async def test_what_was_committed_for_a_deleted_topic_does_not_count_for_the_new_one(
    kafka: KafkaBroker, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = name_of("stale"), name_of("group")
    kafka.create_topic(topic)
    write(kafka.bootstrap, topic, numbered(10))
    late: Any = RdConsumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "enable.auto.commit": False})
    late.commit(offsets=[TopicPartition(topic, 0, 7, f"topic-id={uuid.uuid4().hex}")], asynchronous=False)
    late.close()
    async with member(client, kafka.bootstrap, group, topic) as reading:
        # some may come twice: those from offset 7 on, before the id of the topic is known
        await reading.until(lambda: set(reading.values) == set(numbered(10)))
    [line] = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert "the committed offset 7 belongs to a deleted topic" in line


@pytest.mark.anyio
@pytest.mark.spec("SAFE-58")
@clients
async def test_a_deleted_topic_stays_deleted_and_is_named(kafka: KafkaBroker, client: str) -> None:
    topic = name_of("deleted")
    kafka.create_topic(topic)
    async with member(client, kafka.bootstrap, name_of("group"), topic) as reading:
        await reading.until(lambda: bool(reading.ours))
        assert reading.consumer is not None
        consumer = reading.consumer
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.delete_topics([topic])[topic].result(LIMIT_S)
        await reading.until(lambda: consumer.fault is not None)
        assert "does not exist" in str(consumer.fault)
        await anyio.sleep(2)
        assert topic not in admin.list_topics(timeout=LIMIT_S).topics
        assert kafka.create_topic(topic, 3)
        write(kafka.bootstrap, topic, [b"new"], 2)
        await reading.until(lambda: reading.values == [b"new"] and consumer.fault is None)
