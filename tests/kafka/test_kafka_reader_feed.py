"""The place of a sink that reads the Kafka channel by itself: the offsets of the trigger's consumer group."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from gateway_java.kafka import KafkaBroker
from gateway_kafka.admin import Admin
from gateway_kafka.client_config import KafkaConfig
from gateway_kafka.config import KafkaChannelConfig
from gateway_kafka.java_options import properties
from gateway_testing.suites import Kit
from gateway_testing.suites.channel import Subscription
from gateway_testing.suites.kit import until

from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Channel, Filter
from gateway_core.contract.start_position import EARLIEST, LATEST, StartPosition

pytestmark = pytest.mark.anyio
ALL = Filter(lambda event: True)
PARTITIONS = ("0", "1")


class Place:
    """A channel's topic, and the group of its trigger `table`."""

    def __init__(self, broker: KafkaBroker, folder: Path) -> None:
        self.topic = f"read-{uuid.uuid4().hex[:8]}"
        self.broker = broker
        self.folder = folder
        self.options = {"bootstrap": broker.bootstrap, "topic": self.topic, "partitions": 2, "request_timeout_s": 3}

    @asynccontextmanager
    async def channel(self, *readers: str, start: StartPosition = LATEST) -> AsyncIterator[Any]:
        channel: Any = Kit(self.folder).channel("kafka", self.options)
        async with anyio.create_task_group() as tasks:
            await channel.start(tasks)
            feeds = [channel.attach_reader(name, ALL, start=start) for name in readers]
            await channel.open()
            yield (channel, *feeds)
            await channel.stop()
            tasks.cancel_scope.cancel()

    async def committed(self, group: str) -> dict[str, int | None]:
        async with Admin(KafkaConfig(bootstrap=[self.broker.bootstrap])) as admin:
            found = await admin.committed(group, [(self.topic, int(n)) for n in PARTITIONS])
        return {str(number): offset for (_, number), offset in found.items()}

    async def follow(self, group: str, offsets: Mapping[str, int]) -> None:
        with anyio.fail_after(30):
            while await self.committed(group) != offsets:  # noqa: ASYNC110 - it is the cluster's to know
                await anyio.sleep(0.05)


@pytest.fixture
def place(kafka: KafkaBroker, tmp_path: Path) -> Place:
    return Place(kafka, tmp_path)


async def append(channel: Channel, count: int) -> None:
    answers: list[BaseException | None] = []
    attributes = {"specversion": "1.0", "source": "/s", "type": "t"}
    events = [Event({**attributes, "id": str(n)}, b"", False, str(n).encode()) for n in range(count)]
    channel.append(events, answers.append)
    await until(lambda: bool(answers), "the append")
    assert answers == [None]


async def test_a_reader_begins_where_its_group_is_and_takes_the_group_along(place: Place) -> None:
    async with place.channel("new", "old", start=EARLIEST) as (channel, feed, _):
        assert dict(feed.start) == {"0": 0, "1": 0}
        assert feed.options["kind"] == "kafka"
        assert feed.options["topic"] == place.topic
        assert feed.options["properties"]["bootstrap.servers"] == place.broker.bootstrap
        await append(channel, 20)
        await until(lambda: sum(feed.ends().values()) == 20, "the new ends")
        ends = dict(feed.ends())
        feed.advance({"0": 1})
        feed.advance({"0": ends["0"], "1": 1})
        await place.follow(feed.group, {"0": ends["0"], "1": 1})
        feed.advance({"1": ends["1"] - 1})  # and the channel stops at once
    async with place.channel("new", "late") as (channel, feed, late):
        assert dict(feed.start) == {"0": ends["0"], "1": ends["1"] - 1}
        assert dict(late.start) == ends  # a new one, not from the start
        after = channel.attach_reader("later", ALL, start=EARLIEST)
        await channel.joined("later")
        assert dict(after.start) == {"0": 0, "1": 0}
        channel.detach("new")
        again = channel.attach_reader("new", ALL)
        await channel.joined("new")
        assert dict(again.start) == dict(feed.start)


@pytest.mark.spec("TR-11")
async def test_a_new_reader_begins_at_a_time_or_at_positions(place: Place) -> None:
    async with place.channel() as (channel,):
        await append(channel, 20)
        later = channel.attach_reader("later", ALL, start=StartPosition.at_time(time.time_ns() + 3_600_000_000_000))
        before = channel.attach_reader("before", ALL, start=StartPosition.at_time(0))
        placed = channel.attach_reader("placed", ALL, start=StartPosition.at_positions({0: 3, 5: 1}))
        for name in ("later", "before", "placed"):
            await channel.joined(name)
        assert sum(later.start.values()) == 20
        assert dict(before.start) == {"0": 0, "1": 0}
        assert dict(placed.start) == {"0": 2, "1": 0}, "an event's position is its offset plus one"


async def test_a_reader_is_not_stopped_by_a_cluster_that_is_away(
    own_kafka: Callable[..., KafkaBroker], tmp_path: Path
) -> None:
    place = Place(own_kafka(), tmp_path)
    async with place.channel("one", start=EARLIEST) as (channel, feed):
        await append(channel, 10)
        await until(lambda: sum(feed.ends().values()) == 10, "the ends")
        ends = dict(feed.ends())
        place.broker.kill()
        feed.advance(ends)
        assert dict(feed.ends()) == ends
        await until(lambda: feed.health.fault is not None, "the fault")
        await anyio.to_thread.run_sync(place.broker.start)
        await place.follow(feed.group, ends)
        await until(lambda: feed.health.fault is None, "the fault to be over")


def test_what_java_is_told_of_passwords_and_certificates(tmp_path: Path) -> None:
    def told(**options: Any) -> dict[str, str]:
        return properties(KafkaChannelConfig.model_validate(options))

    ca = tmp_path / "ca.pem"
    ca.write_text("-----BEGIN CERTIFICATE-----\n")

    sasl = {"mechanism": "SCRAM-SHA-512", "username": "ada", "password": 'a"b\\c'}
    found = told(sasl=sasl, tls={"ca_file": ca, "verify_host": False})
    assert found["security.protocol"] == "SASL_SSL"
    assert found["sasl.jaas.config"].endswith(r'ScramLoginModule required username="ada" password="a\"b\\c";')
    assert found["ssl.truststore.certificates"] == ca.read_text()
    assert found["ssl.endpoint.identification.algorithm"] == ""
    old = tmp_path / "old.pem"
    old.write_text("-----BEGIN RSA PRIVATE KEY-----\n")
    faults: dict[str, dict[str, Any]] = {
        "openssl pkcs8 -topk8": {"tls": {"cert_file": ca, "key_file": old}},
        "can't be read": {"tls": {"ca_file": tmp_path / "none.pem"}},
        "OAUTHBEARER": {"sasl": {"mechanism": "OAUTHBEARER", "oauth": {"token_file": tmp_path / "token"}}},
    }
    for words, options in faults.items():
        channel = Kit(tmp_path).channel("kafka", {"bootstrap": "127.0.0.1:9", **options})
        with pytest.raises(StartError, match=words):
            channel.attach_reader("one", ALL)


@pytest.mark.spec("AGAIN-03", "AGAIN-25")
async def test_a_trigger_whose_start_the_topic_has_passed_says_so(place: Place) -> None:
    async with place.channel() as (channel,):
        await append(channel, 20)
        admin = AdminClient({"bootstrap.servers": place.broker.bootstrap})
        for future in admin.delete_records([TopicPartition(place.topic, 0, 2)]).values():
            future.result(30)
        late, exact = Subscription(start=StartPosition.at_time(1)), Subscription(start=EARLIEST)
        for name, subscription in {"late": late, "exact": exact}.items():
            subscription.attach(channel, name)
            await channel.joined(name)
        await until(lambda: len(late.events) == len(exact.events) == 18, "the events that are left")
        feed: Any = late.feed
        assert "has deleted events of partition 0" in feed.started_late
        assert getattr(exact.feed, "started_late", "") is None
        said = feed.started_late
        reading: Any = channel.attach_reader("reads", ALL, start=StartPosition.at_time(1))
        await until(lambda: reading.started_late == said, "a sink that reads the topic itself")
    async with place.channel() as (channel,):  # also after a restart
        late.attach(channel, "late")
        await channel.joined("late")
        feed = late.feed
        assert feed.started_late == said
        reading = channel.attach_reader("reads", ALL, start=StartPosition.at_time(1))
        await until(lambda: reading.started_late == said, "a sink that reads the topic itself")
