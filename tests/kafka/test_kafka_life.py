"""Subscriptions of the channel and sources that end and begin while the gateway runs, as a reload has it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_java.kafka import KafkaBroker
from gateway_testing.suites import Kit, MemoryIntake
from gateway_testing.suites.kit import until

from gateway_core.contract.errors import Overloaded
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Channel, Feed, Filter, Outcome
from gateway_core.contract.start_position import EARLIEST
from tests.kafka_broker import CLIENTS as END_TO_END
from tests.kafka_broker import TWIN_CLIENTS, producer

pytestmark = pytest.mark.anyio
ALL = Filter(lambda event: True)


def event(id: str) -> Event:
    return Event({"specversion": "1.0", "id": id, "source": "/s", "type": "t"}, b"", False, id.encode(), 0)


class Taken:
    """A subscription that has done with an event as soon as it takes it."""

    def __init__(self, channel: Channel) -> None:
        self.ids: list[str] = []
        self.feed: Feed = channel.attach("one", ALL, self, start=EARLIEST)

    def offer(self, event: Event) -> bool:
        self.ids.append(str(event.attributes["id"]))
        self.feed.ack(event.position)
        return True

    def reject(self, event: Event, outcome: Outcome) -> None:
        raise AssertionError(f"{event} is an event")

    def withdraw(self, partition: int) -> Sequence[int]:
        return ()


@asynccontextmanager
async def running(channel: Channel) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        await channel.start(tasks)
        await channel.open()
        yield
        await channel.stop()
        tasks.cancel_scope.cancel()


async def append(channel: Channel, *ids: str) -> None:
    answers: list[BaseException | None] = []
    channel.append([event(id) for id in ids], answers.append)
    await until(lambda: bool(answers), "the append")
    assert answers == [None]


@pytest.mark.parametrize("client", TWIN_CLIENTS)
async def test_a_subscription_that_ends_before_it_has_joined_takes_nothing_from_the_next(
    kafka: KafkaBroker, tmp_path: Path, client: str
) -> None:
    topic = f"life-{uuid.uuid4().hex[:8]}"
    options = {"bootstrap": kafka.bootstrap, "topic": topic, "client": client, "drain_s": 1, "session_timeout_s": 6}
    channel = Kit(tmp_path).channel("kafka", options)
    async with running(channel):
        for _ in range(3):
            Taken(channel)
            channel.detach("one")
        last = Taken(channel)
        sent = [str(n) for n in range(60)]
        await append(channel, *sent)
        await until(lambda: sorted(last.ids) == sorted(sent), "all events at the last subscription")


@pytest.mark.parametrize("client", TWIN_CLIENTS)
async def test_a_source_that_is_stopped_while_it_waits_for_kafka_does_not_join_later(
    own_kafka: Callable[..., KafkaBroker], tmp_path: Path, client: str
) -> None:
    broker = own_kafka()
    topic = f"life-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic)
    place: dict[str, Any] = {"bootstrap": broker.bootstrap, "topic": topic, "group": topic, "start": "earliest"}
    broker.kill()
    kit, gone, intake = Kit(tmp_path), MemoryIntake(), MemoryIntake()
    async with anyio.create_task_group() as tasks:
        source = kit.source("kafka", {**place, "client": client})
        await source.start(gone, tasks)
        await source.stop()
        await anyio.to_thread.run_sync(broker.start)
        successor = kit.source("kafka", {**place, "client": client})
        await successor.start(intake, tasks)
        writing = producer(broker.bootstrap)
        headers = [(f"ce_{n}", v.encode()) for n, v in event("1").attributes.items()]
        for _ in range(20):
            writing.produce(topic, b"", headers=headers)
        assert await anyio.to_thread.run_sync(writing.flush, 30) == 0
        await until(lambda: len(intake.events) == 20, "all events at the successor")
        assert not gone.events
        await successor.stop()
        tasks.cancel_scope.cancel()


@pytest.mark.spec("SAFE-61")
@pytest.mark.parametrize("client", END_TO_END)
async def test_what_waits_for_a_cluster_that_is_away_is_bounded(
    own_kafka: Callable[..., KafkaBroker], tmp_path: Path, client: str
) -> None:
    broker = own_kafka()
    place = {"bootstrap": broker.bootstrap, "topic": "away", "client": client, "max_queue_bytes": 1_000_000}
    channel = Kit(tmp_path).channel("kafka", place)
    big = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"x" * 100_000, False, b"", 0)
    async with running(channel):
        await append(channel, "first")
        broker.kill()
        answers: list[BaseException | None] = []
        for _ in range(30):
            channel.append([big], answers.append)
        assert len(answers) == 20, "all that is beyond the bound is refused at once"
        assert all(isinstance(answer, Overloaded) for answer in answers)
        await anyio.to_thread.run_sync(broker.start)
        await until(lambda: len(answers) == 30, "what was taken")
        assert answers[20:] == [None] * 10
        await append(channel, "again")
