"""Consumers of both client libraries, against a real broker."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.group import LeaveGroupRequest
from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from gateway_java.kafka import KafkaBroker
from gateway_kafka import connect
from gateway_kafka.admin import Admin
from gateway_kafka.client import Consumer, KafkaFault, Partition, Record
from gateway_kafka.client_config import KafkaConfig

from tests.kafka_broker import TWIN_CLIENTS, context, producer

pytestmark = pytest.mark.anyio
LIMIT_S = 60.0
clients = pytest.mark.parametrize("client", TWIN_CLIENTS)


class Reading:
    """A member that keeps all it is told. `finish` is awaited when partitions are revoked; what has been read of them
    is then committed, unless `commits` is False."""

    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.ours: dict[Partition, int] = {}
        self.next: dict[Partition, int] = {}
        self.records: dict[Partition, list[Record]] = defaultdict(list)
        self.ends: dict[Partition, int] = {}
        self.told: list[str] = []
        self.wrong: list[str] = []
        self.commits = True
        self.finish: anyio.Event | None = None
        self.asked = anyio.Event()
        self.paused: set[Partition] = set()
        self._changed = anyio.Event()

    def assigned(self, partitions: Mapping[Partition, int], ids: Mapping[str, str]) -> None:
        self.told.append("assigned")
        for name, offset in partitions.items():
            if name in self.ours:
                self.wrong.append(f"{name} assigned twice")
            self.ours[name] = self.next[name] = offset
        self._changed.set()

    async def revoked(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        self.told.append("revoked")
        names = list(partitions)
        self.asked.set()
        if self.finish is not None:
            await self.finish.wait()
        return self._forget(names) if self.commits else (self._forget(names) and {})

    def lost(self, partitions: Iterable[Partition]) -> None:
        self.told.append("lost")
        self._forget(partitions)

    def fetched(self, partition: Partition, records: Sequence[Record], end: int) -> None:
        if partition not in self.ours or partition in self.paused:
            self.wrong.append(f"{partition} fetched, ours {sorted(self.ours)}, paused {self.paused}")
        for record in records:
            if record.offset < self.next.get(partition, 0):
                self.wrong.append(f"{partition}: {record.offset} after {self.next[partition]}")
            self.next[partition] = record.offset + 1
        if end < self.next[partition]:
            self.wrong.append(f"{partition} ends at {end}, before {self.next[partition]}")
        self.records[partition] += records
        self.ends[partition] = end
        self._changed.set()

    def passed(self, partition: Partition, offset: int) -> None:
        if partition not in self.ours:
            self.wrong.append(f"{partition} passed, ours {sorted(self.ours)}")
        self.next[partition] = max(offset, self.next.get(partition, 0))

    def _forget(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        found = {}
        for name in partitions:
            if self.ours.pop(name, None) is None:
                self.wrong.append(f"{name} is not ours to lose")
            found[name] = self.next[name]
            self.paused.discard(name)
        self._changed.set()
        return found

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for records in self.records.values() for record in records]

    async def until(self, reached: Callable[[], bool]) -> None:
        with anyio.fail_after(LIMIT_S):
            while not reached():
                self._changed = anyio.Event()
                with anyio.move_on_after(0.2):
                    await self._changed.wait()


class Lookup(Admin):
    """An admin that can put members out of a group, as the cluster does with those that were silent."""

    async def put_out(self, group: str) -> None:
        client = self.client
        coordinator = await client.coordinator_lookup(0, group)
        await client.ready(coordinator)
        answer = await client.send(coordinator, DescribeGroupsRequest([group]))
        for id, *_ in answer.groups[0][5]:
            await client.send(coordinator, LeaveGroupRequest(group, id))


@asynccontextmanager
async def member(client: str, bootstrap: str, group: str, *topics: str, **options: Any) -> AsyncIterator[Reading]:
    reading = options.pop("reading", None) or Reading()
    config = KafkaConfig.model_validate({"client": client, "bootstrap": bootstrap, "request_timeout_s": 10})
    reading.consumer = connect.consumer(
        config,
        context(),
        group=group,
        topics=list(topics),
        member=reading,
        max_poll_records=options.get("max_poll_records", 100),
        session_timeout_s=options.get("session_timeout_s", 10.0),
    )
    async with anyio.create_task_group() as tasks:
        await reading.consumer.start(tasks)
        try:
            yield reading
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(15):
                await reading.consumer.stop()
            tasks.cancel_scope.cancel()
    assert reading.wrong == []


def name_of(what: str) -> str:
    return f"consumers-{what}-{uuid.uuid4().hex[:12]}"


def write(bootstrap: str, topic: str, values: Iterable[bytes | None], partition: int | None = 0) -> None:
    """Writes records; to all four partitions in turn where `partition` is None."""
    writing = producer(bootstrap, **{"linger.ms": 5})
    for number, value in enumerate(values):
        writing.produce(topic, value, partition=number % 4 if partition is None else partition)
    assert writing.flush(LIMIT_S) == 0


def committed(bootstrap: str, group: str, topic: str, partition: int = 0) -> int | None:
    """The group's committed offset, as a client that is not ours sees it."""
    consumer = RdConsumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        [found] = consumer.committed([TopicPartition(topic, partition)], timeout=LIMIT_S)
        return found.offset if found.offset >= 0 else None
    finally:
        consumer.close()


def commit(bootstrap: str, group: str, topic: str, partition: int, offset: int) -> None:
    consumer = RdConsumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
    consumer.close()


def numbered(count: int, start: int = 0) -> list[bytes | None]:
    return [b"%d" % number for number in range(start, start + count)]


@clients
async def test_records_come_in_order_and_byte_for_byte(kafka: KafkaBroker, client: str) -> None:
    topic = name_of("bytes")
    kafka.create_topic(topic, 4)
    every_byte = bytes(range(256))
    headers = [("ce_größe", "größe ✓".encode()), ("none", None), ("empty", b""), ("twice", b"1"), ("twice", b"2")]
    given = [(None, None), (None, b""), (b"", None), (b"", b""), (b"key", every_byte), (every_byte, b"x" * 100_000)]
    writing = producer(kafka.bootstrap)
    for key, value in given:
        writing.produce(topic, value, key, partition=1, timestamp=1_700_000_000_123, headers=headers)
    assert writing.flush(LIMIT_S) == 0
    async with member(client, kafka.bootstrap, name_of("group"), topic) as reading:
        await reading.until(lambda: len(reading.values) == len(given))
        found = reading.records[topic, 1]
        assert [(record.key, record.value) for record in found] == given
        assert [record.offset for record in found] == list(range(len(given)))
        assert {record.timestamp_ms for record in found} == {1_700_000_000_123}
        assert [list(map(tuple, record.headers)) for record in found] == [headers] * len(given)
        assert reading.ends[topic, 1] == len(given)
        assert reading.ours == {(topic, number): 0 for number in range(4)}


@clients
async def test_each_partition_keeps_its_order(kafka: KafkaBroker, client: str) -> None:
    topic = name_of("order")
    kafka.create_topic(topic, 4)
    write(kafka.bootstrap, topic, numbered(4000), None)
    async with member(client, kafka.bootstrap, name_of("group"), topic) as reading:
        await reading.until(lambda: len(reading.values) == 4000)
        for partition in range(4):
            assert [r.value for r in reading.records[topic, partition]] == numbered(4000)[partition::4]


@clients
async def test_begins_at_the_committed_offset(kafka: KafkaBroker, client: str) -> None:
    topic, group = name_of("begin"), name_of("group")
    kafka.create_topic(topic)
    write(kafka.bootstrap, topic, numbered(10))
    commit(kafka.bootstrap, group, topic, 0, 7)
    async with member(client, kafka.bootstrap, group, topic) as reading:
        await reading.until(lambda: len(reading.values) == 3)
        assert reading.values == numbered(3, 7)
        assert reading.told == ["assigned"]


@clients
async def test_a_commit_is_durable_and_nothing_else_is_committed(kafka: KafkaBroker, client: str) -> None:
    topic, group = name_of("commit"), name_of("group")
    kafka.create_topic(topic, 2)
    write(kafka.bootstrap, topic, numbered(10), 0)
    write(kafka.bootstrap, topic, numbered(10), 1)
    async with member(client, kafka.bootstrap, group, topic) as reading:
        await reading.until(lambda: len(reading.values) == 20)
        assert reading.consumer is not None
        await reading.consumer.commit({(topic, 0): 4, (topic, 99): 1})
        assert committed(kafka.bootstrap, group, topic, 0) == 4
        await reading.consumer.commit({})
        reading.commits = False
    assert committed(kafka.bootstrap, group, topic, 0) == 4
    assert committed(kafka.bootstrap, group, topic, 1) is None


@clients
async def test_stop_commits_what_the_member_answers(kafka: KafkaBroker, client: str) -> None:
    topic, group = name_of("stop"), name_of("group")
    kafka.create_topic(topic)
    write(kafka.bootstrap, topic, numbered(5))
    async with member(client, kafka.bootstrap, group, topic) as reading:
        await reading.until(lambda: len(reading.values) == 5)
    assert reading.told == ["assigned", "revoked"]
    assert committed(kafka.bootstrap, group, topic) == 5


@clients
async def test_a_paused_partition_gives_nothing_and_loses_nothing(kafka: KafkaBroker, client: str) -> None:
    topic, group = name_of("pause"), name_of("group")
    kafka.create_topic(topic, 2)
    async with member(client, kafka.bootstrap, group, topic, max_poll_records=20) as reading:
        await reading.until(lambda: len(reading.ours) == 2)
        assert reading.consumer is not None
        for round_ in range(3):
            reading.paused = {(topic, 0)}
            reading.consumer.pause((topic, 0))
            write(kafka.bootstrap, topic, numbered(500, round_ * 500), 0)
            write(kafka.bootstrap, topic, numbered(100, round_ * 100), 1)
            await reading.until(lambda: len(reading.records[topic, 1]) == (round_ + 1) * 100)  # noqa: B023
            assert len(reading.records[topic, 0]) == round_ * 500
            reading.paused = set()
            reading.consumer.resume((topic, 0))
            await reading.until(lambda: len(reading.records[topic, 0]) == (round_ + 1) * 500)  # noqa: B023
        assert [r.value for r in reading.records[topic, 0]] == numbered(1500)
        reading.consumer.pause((topic, 77))
        reading.consumer.resume((topic, 77))


@clients
async def test_a_member_may_pause_with_every_batch(kafka: KafkaBroker, client: str) -> None:
    topic = name_of("steps")
    kafka.create_topic(topic, 4)
    write(kafka.bootstrap, topic, numbered(2000), None)

    class Stepping(Reading):
        def fetched(self, partition: Partition, records: Sequence[Record], end: int) -> None:
            super().fetched(partition, records, end)
            assert self.consumer is not None
            self.paused.add(partition)
            self.consumer.pause(partition)

    reading = Stepping()
    async with member(client, kafka.bootstrap, name_of("group"), topic, reading=reading, max_poll_records=50):
        assert reading.consumer is not None

        def on() -> bool:
            for partition in list(reading.paused):
                reading.paused.discard(partition)
                reading.consumer.resume(partition)  # type: ignore[union-attr]
            return len(reading.values) == 2000

        await reading.until(on)
        for partition in range(4):
            assert [r.value for r in reading.records[topic, partition]] == numbered(2000)[partition::4]


@clients
async def test_another_member_takes_over_what_was_not_committed(kafka: KafkaBroker, client: str) -> None:
    topic, group = name_of("takeover"), name_of("group")
    kafka.create_topic(topic, 4)
    write(kafka.bootstrap, topic, numbered(400), None)
    async with member(client, kafka.bootstrap, group, topic) as first:
        first.commits = False
        await first.until(lambda: len(first.values) == 400)
        assert first.consumer is not None
        await first.consumer.commit({(topic, number): 60 for number in range(4)})
    async with member(client, kafka.bootstrap, group, topic) as second:
        await second.until(lambda: len(second.values) == 160)
        assert sorted(second.values) == sorted(v for p in range(4) for v in numbered(400)[p::4][60:])


@clients
async def test_a_partition_goes_only_when_its_member_has_finished(kafka: KafkaBroker, client: str) -> None:
    topic, group = name_of("revoke"), name_of("group")
    kafka.create_topic(topic, 2)
    write(kafka.bootstrap, topic, numbered(20), 0)
    write(kafka.bootstrap, topic, numbered(20), 1)
    async with member(client, kafka.bootstrap, group, topic) as first:
        await first.until(lambda: len(first.values) == 40)
        finish = first.finish = anyio.Event()
        first.asked = anyio.Event()
        async with member(client, kafka.bootstrap, group, topic) as second:
            with anyio.fail_after(LIMIT_S):
                await first.asked.wait()
            assert second.ours == {}
            finish.set()
            first.finish = None
            await second.until(lambda: len(second.ours) == 1)
            await first.until(lambda: len(first.ours) == 1)
            assert set(first.ours) | set(second.ours) == {(topic, 0), (topic, 1)}
            [(name, start)] = second.ours.items()
            assert start == 20  # what the first one answered was committed before it let go
            write(kafka.bootstrap, topic, [b"new"], name[1])
            await second.until(lambda: second.values == [b"new"])
        await first.until(lambda: len(first.ours) == 2)
        assert "lost" not in first.told


@clients
async def test_nothing_is_lost_while_members_come_and_go(kafka: KafkaBroker, client: str) -> None:
    topic, group = name_of("storm"), name_of("group")
    kafka.create_topic(topic, 4)
    seen: set[bytes | None] = set()

    async def writes() -> None:
        for start in range(0, 3000, 100):
            await anyio.to_thread.run_sync(write, kafka.bootstrap, topic, numbered(100, start), None)
            await anyio.sleep(0.05)

    async with member(client, kafka.bootstrap, group, topic) as steady, anyio.create_task_group() as tasks:
        tasks.start_soon(writes)
        for _ in range(5):
            async with member(client, kafka.bootstrap, group, topic) as guest:
                await guest.until(lambda: bool(guest.ours))
                await anyio.sleep(0.2)
            seen.update(guest.values)
        await steady.until(lambda: seen | set(steady.values) >= set(numbered(3000)))


@clients
async def test_who_was_put_out_of_the_group_does_not_undo_what_others_committed(
    kafka: KafkaBroker, client: str
) -> None:
    topic = group = name_of("out")
    kafka.create_topic(topic)
    write(kafka.bootstrap, topic, numbered(20))
    reading = Reading()
    async with member(client, kafka.bootstrap, group, topic, reading=reading) as reading:
        await reading.until(lambda: len(reading.values) == 20)
        reading.next[topic, 0] = 5  # so far it has got
        async with Lookup(KafkaConfig(bootstrap=[kafka.bootstrap])) as lookup:
            await lookup.put_out(group)
            await lookup.commit(group, {(topic, 0): 15})
        await reading.until(lambda: len(reading.told) > 1 and (topic, 0) in reading.ours)
        assert committed(kafka.bootstrap, group, topic) == 15
        assert reading.ours[topic, 0] == 15


@clients
async def test_reads_on_when_the_broker_is_back(
    own_kafka: Callable[..., KafkaBroker], client: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidegate.kafka")
    broker = own_kafka()
    topic, group = name_of("broker"), name_of("group")
    broker.create_topic(topic, 2)
    write(broker.bootstrap, topic, numbered(10))
    async with member(client, broker.bootstrap, group, topic, session_timeout_s=30.0) as reading:
        await reading.until(lambda: len(reading.values) == 10)
        assert reading.consumer is not None
        consumer = reading.consumer
        await consumer.commit({(topic, 0): 10})
        broker.kill()
        await reading.until(lambda: consumer.fault is not None)
        broker.start()
        write(broker.bootstrap, topic, numbered(10, 10))
        await reading.until(lambda: set(reading.values) >= set(numbered(20)) and consumer.fault is None)
        with anyio.fail_after(LIMIT_S):
            while True:
                with contextlib.suppress(KafkaFault):
                    await consumer.commit({(topic, 0): 20})
                    if committed(broker.bootstrap, group, topic) == 20:
                        break
                await anyio.sleep(0.1)
    lines = [record.getMessage() for record in caplog.records if group in record.getMessage()]
    assert len([line for line in lines if "works again" in line]) == 1, lines
    assert len([r for r in caplog.records if r.levelno == logging.WARNING and "127.0.0.1" in r.getMessage()]) == 1


@clients
async def test_says_which_records_are_gone(kafka: KafkaBroker, client: str, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = name_of("gone"), name_of("group")
    kafka.create_topic(topic)
    write(kafka.bootstrap, topic, numbered(10))
    commit(kafka.bootstrap, group, topic, 0, 3)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 8)]).values():
        future.result(LIMIT_S)
    async with member(client, kafka.bootstrap, group, topic) as reading:
        await reading.until(lambda: len(reading.values) == 2)
        assert reading.values == numbered(2, 8)
    [line] = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert "records 3 to 7 were deleted" in line
    assert topic in line
    assert group in line


@clients
async def test_a_topic_that_was_made_anew_is_read_from_its_beginning(
    kafka: KafkaBroker, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = name_of("anew"), name_of("group")
    kafka.create_topic(topic)
    write(kafka.bootstrap, topic, numbered(3))
    commit(kafka.bootstrap, group, topic, 0, 1000)
    async with member(client, kafka.bootstrap, group, topic) as reading:
        await reading.until(lambda: len(reading.values) == 3)
        # the first fetch may be what finds out: the member was told 1000 then, and is handed 0
        reading.wrong = [wrong for wrong in reading.wrong if not wrong.endswith("0 after 1000")]
    [line] = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert "1000" in line
    assert "ends at 3" in line


@clients
async def test_a_cluster_that_is_away_is_no_error_of_a_start(
    own_kafka: Callable[..., KafkaBroker], client: str
) -> None:
    broker = own_kafka()
    topic = name_of("away")
    broker.create_topic(topic)
    write(broker.bootstrap, topic, numbered(3))
    broker.kill()
    async with member(client, broker.bootstrap, name_of("group"), topic) as reading:
        assert reading.consumer is not None
        assert reading.consumer.fault is not None
        assert not reading.consumer.fault.credentials
        broker.start()
        await reading.until(lambda: len(reading.values) == 3)
        assert reading.consumer.fault is None
