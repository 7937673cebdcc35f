"""Topics, offsets and groups of a real cluster."""

from __future__ import annotations

import time
import uuid
from typing import Any

import anyio
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from gateway_java.kafka import KafkaBroker
from gateway_kafka.admin import Admin
from gateway_kafka.client import GroupActive, KafkaFault, Partition
from gateway_kafka.client_config import KafkaConfig
from gateway_kafka.config import OffsetStart, Start, TimestampStart

pytestmark = pytest.mark.anyio


def new(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex}"


def admin(kafka: KafkaBroker, **options: Any) -> Admin:
    return Admin(KafkaConfig(bootstrap=[kafka.bootstrap], **options))


async def write(kafka: KafkaBroker, topic: str, partition: int, count: int, at_ms: int | None = None) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for number in range(count):
            stamp = None if at_ms is None else at_ms + number
            await producer.send_and_wait(topic, b"v", partition=partition, timestamp_ms=stamp)


async def test_a_topic_is_made_once_by_many_and_stays_as_it_is(kafka: KafkaBroker) -> None:
    topic = new("made")
    async with admin(kafka) as one, admin(kafka) as other:
        async with anyio.create_task_group() as tasks:
            for who in (one, other, one, other):
                tasks.start_soon(who.ensure_topic, topic, 3, None)
        assert await one.partitions([topic]) == [(topic, 0), (topic, 1), (topic, 2)]
        await other.ensure_topic(topic, 9, 1)
        assert len(await other.partitions([topic])) == 3
        assert await other.ends([(topic, 2)]) == {(topic, 2): 0}


async def test_a_topic_that_does_not_exist_is_named_and_not_made_by_asking(kafka: KafkaBroker) -> None:
    topic = new("absent")
    async with admin(kafka) as one:
        for _ in range(2):
            with pytest.raises(KafkaFault, match=topic) as raised:
                await one.partitions([topic])
            assert raised.value.retry


async def test_more_replicas_than_brokers_is_a_fault_that_says_so(kafka: KafkaBroker) -> None:
    topic = new("replicas")
    async with admin(kafka) as one:
        with pytest.raises(KafkaFault, match=r"can't be created.*[Rr]eplica") as raised:
            await one.ensure_topic(topic, 1, 5)
        assert not raised.value.retry


async def test_a_cluster_that_is_away_is_a_fault() -> None:
    with pytest.raises(KafkaFault, match=r"127\.0\.0\.1:1") as raised:
        async with Admin(KafkaConfig(bootstrap=["127.0.0.1:1"], request_timeout_s=2)):
            pass
    assert raised.value.retry
    assert not raised.value.credentials


async def test_beginnings_ends_and_times(kafka: KafkaBroker) -> None:
    topic = new("offsets")
    since = round(time.time() * 1000) - 60_000
    async with admin(kafka) as one:
        await one.ensure_topic(topic, 2, None)
        await write(kafka, topic, 0, 5, at_ms=since)
        both = await one.partitions([topic])
        assert await one.beginnings(both) == {(topic, 0): 0, (topic, 1): 0}
        assert await one.ends(both) == {(topic, 0): 5, (topic, 1): 0}
        assert await one.at_time(both, since + 3) == {(topic, 0): 3, (topic, 1): 0}
        assert await one.at_time(both, since + 50) == {(topic, 0): 5, (topic, 1): 0}


STARTS: list[tuple[Start, int]] = [
    ("earliest", 0),
    ("latest", 6),
    (OffsetStart(offset=4), 4),
    (OffsetStart(offset=400), 6),
    (TimestampStart(timestamp="2026-01-31T08:00:02Z"), 2),
    (TimestampStart(timestamp="2026-01-31T09:00:03.000+01:00"), 3),
]


@pytest.mark.parametrize(("start", "offset"), STARTS, ids=str)
async def test_a_new_group_begins_where_the_config_says(kafka: KafkaBroker, start: Start, offset: int) -> None:
    topic, group = new("start"), new("group")
    async with admin(kafka) as one:
        await one.ensure_topic(topic, 2, None)
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            for second in range(6):  # from 2026-01-31T08:00:00Z
                await producer.send_and_wait(topic, b"v", partition=0, timestamp_ms=1769846400000 + second * 1000)
        await one.prepare(group, [topic], start)
        committed = await one.committed(group, await one.partitions([topic]))
        assert committed == {(topic, 0): offset, (topic, 1): 0}
        assert group in await one.groups()


async def test_what_a_group_has_committed_stays_and_new_partitions_begin_at_their_beginning(kafka: KafkaBroker) -> None:
    topic, group = new("known"), new("group")
    async with admin(kafka) as one:
        await one.ensure_topic(topic, 2, None)
        for partition in (0, 1):
            await write(kafka, topic, partition, 3)
        await one.commit(group, {(topic, 0): 1})
        await one.prepare(group, [topic], "latest")
        both = await one.partitions([topic])
        assert await one.committed(group, both) == {(topic, 0): 1, (topic, 1): 0}
        await one.prepare(group, [topic], "latest")
        assert await one.committed(group, both) == {(topic, 0): 1, (topic, 1): 0}


async def test_many_prepare_a_group_at_once(kafka: KafkaBroker) -> None:
    topic, group = new("race"), new("group")
    async with admin(kafka) as one, admin(kafka) as other:
        await one.ensure_topic(topic, 3, None)
        await write(kafka, topic, 1, 2)
        async with anyio.create_task_group() as tasks:
            for who in (one, other, one, other):
                tasks.start_soon(who.prepare, group, [topic], "latest")
        expected: dict[Partition, int | None] = {(topic, 0): 0, (topic, 1): 2, (topic, 2): 0}
        assert await one.committed(group, await one.partitions([topic])) == expected


async def test_a_group_with_members_is_left_alone(kafka: KafkaBroker) -> None:
    topic, group = new("active"), new("group")
    async with admin(kafka) as one:
        await one.ensure_topic(topic, 1, None)
        await write(kafka, topic, 0, 3)
        member = AIOKafkaConsumer(topic, bootstrap_servers=kafka.bootstrap, group_id=group, enable_auto_commit=False)
        await member.start()  # returns as a member
        try:
            with pytest.raises(GroupActive, match=group):
                await one.commit(group, {(topic, 0): 2})
            await one.prepare(group, [topic], "latest")  # its members say where it begins
            assert await one.committed(group, [(topic, 0)]) == {(topic, 0): None}
        finally:
            await member.stop()
        await one.commit(group, {(topic, 0): 2})
        assert await one.committed(group, [(topic, 0)]) == {(topic, 0): 2}


async def test_a_time_that_is_none_is_refused(kafka: KafkaBroker) -> None:
    topic = new("time")
    async with admin(kafka) as one:
        await one.ensure_topic(topic, 1, None)
        with pytest.raises(KafkaFault, match="RFC 3339") as raised:
            await one.prepare(new("group"), [topic], TimestampStart(timestamp="yesterday"))
        assert not raised.value.retry
