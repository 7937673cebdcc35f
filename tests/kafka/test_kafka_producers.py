"""Producers of both client libraries, against a real broker; records are read back with aiokafka's plain consumer."""

from __future__ import annotations

import os
import random
import signal
import struct
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.partitioner import murmur2
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from gateway_java.kafka import KafkaBroker
from gateway_java.kafka_config import Listener
from gateway_kafka import connect
from gateway_kafka.admin import Admin
from gateway_kafka.client import Headers, KafkaFault, Producer
from gateway_kafka.client_config import KafkaConfig, KafkaProducerConfig

from tests.kafka_broker import TWIN_CLIENTS, context
from tests.kafka_shared import PROPERTIES

pytestmark = pytest.mark.anyio
LIMIT_S = 60.0
clients = pytest.mark.parametrize("client", TWIN_CLIENTS)


@asynccontextmanager
async def producing(**options: Any) -> AsyncIterator[Producer]:
    made = connect.producer(KafkaProducerConfig.model_validate(options), context())
    async with anyio.create_task_group() as tasks:
        await made.start(tasks)
        try:
            yield made
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(10):
                await made.stop()
        tasks.cancel_scope.cancel()


class Answers:
    """Counts what a producer answers. `faults` by the number of the record, in the order of sending."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.faults: dict[int, KafkaFault] = {}
        self.order: list[int] = []
        self.sent = 0
        self._producer = producer
        self._topic = topic
        self._changed = anyio.Event()

    def send(self, key: bytes | None, value: bytes | None, headers: Headers | None = None) -> None:
        number = self.sent
        self.sent += 1

        def done(fault: KafkaFault | None) -> None:
            self.order.append(number)
            if fault is not None:
                self.faults[number] = fault
            self._changed.set()

        self._producer.send(self._topic, key, value, headers or [], done)

    async def room(self, under_way: int) -> None:
        """Waits until fewer than so many are not answered."""
        with anyio.fail_after(LIMIT_S):
            while self.sent - len(self.order) >= max(1, under_way):
                self._changed = anyio.Event()
                await self._changed.wait()

    async def all(self) -> dict[int, KafkaFault]:
        await self.room(1)
        return self.faults


async def read(bootstrap: str, topic: str, least: int = 0) -> list[Any]:
    """All records of a topic, each partition in order."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    await consumer.start()
    try:
        async with Admin(KafkaConfig(bootstrap=[bootstrap])) as admin:
            parts = [TopicPartition(*name) for name in await admin.partitions([topic])]
        consumer.assign(parts)
        await consumer.seek_to_beginning(*parts)
        found: list[Any] = []
        with anyio.fail_after(LIMIT_S):
            ends = await consumer.end_offsets(parts)
            while [p for p in parts if await consumer.position(p) < ends[p]]:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += records
        assert len(found) >= least
        return found
    finally:
        await consumer.stop()


def new_topic() -> str:
    return f"producers-{uuid.uuid4().hex}"


async def make(bootstrap: str, topic: str, partitions: int = 4) -> None:
    async with Admin(KafkaConfig(bootstrap=[bootstrap])) as admin:
        await admin.ensure_topic(topic, partitions, None)


BYTES: list[tuple[bytes | None, bytes | None]] = [
    (None, None),
    (None, b""),
    (b"", None),
    (b"", b""),
    (b"\x00\xff", bytes(range(256))),
    ("ключ".encode(), "значение".encode()),
    (None, b"x" * 300_000),
]
HEADERS: list[tuple[str, bytes]] = [("ce_source", "/größe/日本".encode()), ("имя", b""), ("same", b"1"), ("same", b"2")]


@clients
@pytest.mark.spec("KB-06", "KB-10", "KB-11", "KB-12")
async def test_keys_values_and_headers_arrive_byte_for_byte(kafka: KafkaBroker, client: str) -> None:
    topic = new_topic()
    await make(kafka.bootstrap, topic, 1)
    async with producing(bootstrap=kafka.bootstrap, client=client) as producer:
        answers = Answers(producer, topic)
        for key, value in BYTES:
            answers.send(key, value, HEADERS)
        assert await answers.all() == {}
        assert producer.fault is None
    found = await read(kafka.bootstrap, topic)
    assert [(r.key, r.value) for r in found] == BYTES
    assert all(list(r.headers) == HEADERS for r in found)


@clients
async def test_a_key_goes_to_the_partition_that_kafkas_java_client_chooses(kafka: KafkaBroker, client: str) -> None:
    topic = new_topic()
    await make(kafka.bootstrap, topic, 7)
    chance = random.Random(5)
    keys = [chance.randbytes(n) for n in range(70)] + ["ä-日本".encode(), b"\x80\xff\x80", os.urandom(1000)]
    async with producing(bootstrap=kafka.bootstrap, client=client) as producer:
        answers = Answers(producer, topic)
        for key in keys:
            answers.send(key, b"")
        assert await answers.all() == {}
    placed = {r.key: r.partition for r in await read(kafka.bootstrap, topic)}
    assert placed == {key: (murmur2(key) & 0x7FFFFFFF) % 7 for key in keys}


# Of Kafka's own tests (org.apache.kafka.common.utils.UtilsTest.testMurmur2), as signed 32-bit numbers.
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", MURMUR2)
def test_our_murmur2_is_kafkas(key: bytes) -> None:
    from gateway_kafka.aio.murmur import murmur2 as ours

    assert struct.unpack("<i", struct.pack("<I", ours(key))) == (MURMUR2[key],)


@clients
async def test_the_records_of_a_key_keep_their_order(kafka: KafkaBroker, client: str) -> None:
    topic = new_topic()
    async with producing(bootstrap=kafka.bootstrap, client=client) as producer:
        answers = Answers(producer, topic)  # the topic comes into being by the first record
        for number in range(3000):
            answers.send(b"%d" % (number % 20), b"%d" % number)
            if number % 100 == 0:
                await answers.room(500)
        assert await answers.all() == {}
    seen: dict[bytes, list[int]] = defaultdict(list)
    for record in await read(kafka.bootstrap, topic):
        seen[record.key].append(int(record.value))
    assert seen == {b"%d" % k: list(range(k, 3000, 20)) for k in range(20)}


@clients
async def test_records_without_a_key_are_spread(kafka: KafkaBroker, client: str) -> None:
    topic = new_topic()
    await make(kafka.bootstrap, topic, 4)
    async with producing(bootstrap=kafka.bootstrap, client=client) as producer:
        answers = Answers(producer, topic)
        for number in range(200):
            answers.send(None, b"%d" % number)
            await answers.room(1 + number % 7)
        assert await answers.all() == {}
    found = await read(kafka.bootstrap, topic)
    assert sorted(int(r.value) for r in found) == list(range(200))
    assert {r.partition for r in found} == {0, 1, 2, 3}


@clients
@pytest.mark.parametrize("compression", ["gzip", "lz4", "snappy", "zstd"])
async def test_compressed_batches_are_read_back(kafka: KafkaBroker, client: str, compression: str) -> None:
    topic = new_topic()
    async with producing(bootstrap=kafka.bootstrap, client=client, compression=compression) as producer:
        answers = Answers(producer, topic)
        for number in range(50):
            answers.send(b"k", b"%d " % number * 200)
        assert await answers.all() == {}
    assert [r.value for r in await read(kafka.bootstrap, topic)] == [b"%d " % n * 200 for n in range(50)]


@clients
async def test_a_linger_gathers_and_delivers(kafka: KafkaBroker, client: str) -> None:
    topic = new_topic()
    async with producing(bootstrap=kafka.bootstrap, client=client, linger_ms=5) as producer:
        answers = Answers(producer, topic)
        for number in range(300):
            answers.send(b"%d" % number, b"v")
            await answers.room(30)
        assert await answers.all() == {}
    assert len(await read(kafka.bootstrap, topic)) == 300


@clients
async def test_a_record_larger_than_the_setting_is_refused_and_its_neighbours_are_not(
    kafka: KafkaBroker, client: str
) -> None:
    topic = new_topic()
    await make(kafka.bootstrap, topic, 1)
    async with producing(bootstrap=kafka.bootstrap, client=client, max_record_bytes=10_000) as producer:
        answers = Answers(producer, topic)
        for size in (10, 20_000, 20):
            answers.send(b"k", b"x" * size)
        faults = await answers.all()
    assert list(faults) == [1]
    assert not faults[1].retry
    assert "10000" in str(faults[1])
    assert [len(r.value) for r in await read(kafka.bootstrap, topic)] == [10, 20]


@clients
async def test_a_record_larger_than_the_topic_takes_is_refused_and_its_neighbours_are_not(
    kafka: KafkaBroker, client: str
) -> None:
    topic = new_topic()
    kafka.create_topic(topic, 1, {"max.message.bytes": "20000"})
    async with producing(bootstrap=kafka.bootstrap, client=client) as producer:
        answers = Answers(producer, topic)
        for size in (*[3000] * 20, 30_000, *[2000] * 20):
            answers.send(b"k", b"x" * size)
        faults = await answers.all()
        answers.send(b"k", b"after")
        await answers.all()
    assert list(faults) == [20]
    assert not faults[20].retry
    assert topic in str(faults[20])
    assert [len(r.value) for r in await read(kafka.bootstrap, topic)] == [3000] * 20 + [2000] * 20 + [5]


@pytest.fixture(scope="module")
def strict_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that makes no topic by itself; `bob`, who logs in at the listener BOB, may write to `allowed` alone."""
    module = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="b";'
    sasl = {"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": module}
    broker = KafkaBroker(
        tmp_path_factory.mktemp("strict-kafka"),
        listeners=[Listener("BOB", "SASL_PLAINTEXT", properties=sasl)],
        properties={
            **PROPERTIES,
            "auto.create.topics.enable": "false",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
    )
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@clients
async def test_a_topic_that_does_not_exist_is_named(strict_kafka: KafkaBroker, client: str) -> None:
    broker, topic = strict_kafka, new_topic()
    async with producing(bootstrap=broker.bootstrap, client=client, delivery_timeout_s=6) as producer:
        answers = Answers(producer, topic)
        answers.send(b"k", b"v")
        answers.send(None, b"v")
        faults = await answers.all()
        assert set(faults) == {0, 1}
        assert all(topic in str(fault) and fault.retry for fault in faults.values())
        broker.create_topic(topic, 2)
        again = Answers(producer, topic)
        again.send(b"k", b"now")
        assert await again.all() == {}
    assert [r.value for r in await read(broker.bootstrap, topic)] == [b"now"]


@clients
async def test_a_topic_without_permission_is_refused_clearly(strict_kafka: KafkaBroker, client: str) -> None:
    broker = strict_kafka
    for name in ("allowed", "denied"):
        broker.create_topic(name, 1)
    acl = AclBinding(
        ResourceType.TOPIC,
        "allowed",
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    permissions = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in permissions.create_acls([acl]).values():
        future.result(30)
    who = {"mechanism": "PLAIN", "username": "bob", "password": "b"}
    async with producing(bootstrap=broker.address("BOB"), client=client, sasl=who) as producer:
        allowed, denied = Answers(producer, "allowed"), Answers(producer, "denied")
        denied.send(b"k", b"v")
        allowed.send(b"k", b"v")
        assert await allowed.all() == {}
        faults = await denied.all()
        assert not faults[0].retry
        assert "denied" in str(faults[0])
        assert "authori" in str(faults[0]).lower()


@clients
@pytest.mark.usefixtures("real_time")
async def test_a_cluster_that_is_away_is_no_error_at_start_and_records_end_in_time(client: str) -> None:
    async with producing(bootstrap="127.0.0.1:1", client=client, delivery_timeout_s=1) as producer:
        answers = Answers(producer, "t")
        answers.send(b"k", b"v")
        answers.send(None, b"v")
        faults = await answers.all()
        assert set(faults) == {0, 1}
        assert all(fault.retry for fault in faults.values())
        assert producer.fault is not None
        assert not producer.fault.credentials


@clients
async def test_stop_waits_for_what_is_under_way(kafka: KafkaBroker, client: str) -> None:
    topic = new_topic()
    await make(kafka.bootstrap, topic)
    made = connect.producer(
        KafkaProducerConfig.model_validate({"bootstrap": kafka.bootstrap, "client": client}), context()
    )
    async with anyio.create_task_group() as tasks:
        await made.start(tasks)
        answers = Answers(made, topic)
        for number in range(1000):
            answers.send(b"%d" % number, b"v")
        with anyio.fail_after(LIMIT_S):
            await made.stop()
        assert len(answers.order) == 1000
        assert answers.faults == {}
        tasks.cancel_scope.cancel()
    assert len(await read(kafka.bootstrap, topic)) == 1000


@clients
async def test_a_callback_that_fails_does_not_stop_the_others(
    kafka: KafkaBroker, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic()
    await make(kafka.bootstrap, topic, 1)

    def broken(fault: KafkaFault | None) -> None:
        raise RuntimeError("a fault of the caller")

    async with producing(bootstrap=kafka.bootstrap, client=client) as producer:
        answers = Answers(producer, topic)
        answers.send(b"k", b"1")
        producer.send(topic, b"k", b"2", [], broken)
        answers.send(b"k", b"3")
        assert await answers.all() == {}
        answers.send(b"k", b"4")
        assert await answers.all() == {}
    assert [r.value for r in await read(kafka.bootstrap, topic)] == [b"1", b"2", b"3", b"4"]
    assert "a fault of the caller" in caplog.text


@clients
@pytest.mark.parametrize(
    ("total", "kills"),
    [
        pytest.param(3000, (1000,), id="once"),
        pytest.param(6000, (1000, 3000), id="twice", marks=pytest.mark.full),
    ],
)
async def test_a_broker_that_is_killed_under_load_loses_and_reorders_nothing(
    own_kafka: Callable[..., KafkaBroker], client: str, total: int, kills: tuple[int, ...]
) -> None:
    broker = own_kafka()
    topic = new_topic()
    broker.create_topic(topic, 4)
    keys = 23
    async with producing(bootstrap=broker.bootstrap, client=client, delivery_timeout_s=50) as producer:
        answers = Answers(producer, topic)

        async def load() -> None:
            for number in range(total):
                await answers.room(300)
                answers.send(b"%d" % (number % keys), b"%d" % number)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(load)
            for least in kills:
                with anyio.fail_after(LIMIT_S):
                    while len(answers.order) < least:  # noqa: ASYNC110
                        await anyio.sleep(0.002)
                await anyio.to_thread.run_sync(broker.kill)
                await anyio.to_thread.run_sync(broker.start)
        assert await answers.all() == {}
    seen: dict[bytes, list[int]] = defaultdict(list)
    for record in await read(broker.bootstrap, topic):
        seen[record.key].append(int(record.value))
    # the producer is idempotent: what it tries again is written once
    assert seen == {b"%d" % k: list(range(k, total, keys)) for k in range(keys)}


@clients
async def test_the_fault_comes_and_goes_with_the_cluster(
    own_kafka: Callable[..., KafkaBroker], client: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tidegate")
    broker = own_kafka()
    topic = new_topic()
    broker.create_topic(topic, 1)
    async with producing(bootstrap=broker.bootstrap, client=client, delivery_timeout_s=4) as producer:
        answers = Answers(producer, topic)
        answers.send(b"k", b"before")
        assert await answers.all() == {}
        await anyio.to_thread.run_sync(broker.kill)
        answers.send(b"k", b"meanwhile")
        faults = await answers.all()
        assert faults[1].retry
        with anyio.fail_after(LIMIT_S):
            while producer.fault is None:  # noqa: ASYNC110
                await anyio.sleep(0.02)
        await anyio.to_thread.run_sync(broker.start)
        with anyio.fail_after(LIMIT_S):
            while producer.fault is not None:  # noqa: ASYNC110
                await anyio.sleep(0.02)
            again = Answers(producer, topic)
            again.send(b"k", b"after")
            assert await again.all() == {}
    values = [r.value for r in await read(broker.bootstrap, topic)]
    assert values[0] == b"before"
    assert values[-1] == b"after"
    lines = [r.levelname for r in caplog.records if "the Kafka producer" in r.getMessage()]
    assert lines == ["WARNING", "INFO"]


@clients
async def test_records_end_in_time_whenever_the_cluster_falls_silent(
    own_kafka: Callable[..., KafkaBroker], client: str
) -> None:
    """Few are under way then, and many come."""
    broker, topic = own_kafka(), new_topic()
    await make(broker.bootstrap, topic, 1)
    sent: list[float] = []
    ages: list[float] = []

    def aged(since: float, _: KafkaFault | None) -> None:
        ages.append(time.monotonic() - since)

    async with producing(bootstrap=broker.bootstrap, client=client, delivery_timeout_s=6) as producer:
        answers = Answers(producer, topic)
        answers.send(b"k", b"first")
        await answers.all()
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            for count in (3, 40, 40):
                for _ in range(count):
                    sent.append(time.monotonic())
                    producer.send(topic, b"k", b"x", [], partial(aged, sent[-1]))
                await anyio.sleep(0.2)
            with anyio.fail_after(LIMIT_S):
                while len(ages) < len(sent):  # noqa: ASYNC110
                    await anyio.sleep(0.05)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert max(ages) < 12, "one waited for a second time limit"
        answers.send(b"k", b"last")
        assert not await answers.all()
