"""Past events of a topic are found by what they say, without a group, and without keeping the gateway waiting."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_inspect.browse import Browsable
from gateway_java.kafka import KafkaBroker
from gateway_kafka import search
from gateway_testing.suites import Kit
from gateway_testing.suites.kit import until

from gateway_core.contract.capabilities import Searchable, TracksDeliveries
from gateway_core.contract.errors import StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Channel, Outcome
from tests.kafka.test_kafka_life import Taken
from tests.kafka_broker import producer

pytestmark = [pytest.mark.anyio, pytest.mark.spec("CO-25")]
EVER = 2**62


def event(id: str, type: str = "t", size: int = 0) -> Event:
    return Event({"specversion": "1.0", "id": id, "source": "/s", "type": type}, b"x" * size, False, id.encode(), 0)


@asynccontextmanager
async def channel(kafka: KafkaBroker, folder: Path, **options: Any) -> AsyncIterator[Channel]:
    topic = f"search-{uuid.uuid4().hex[:8]}"
    made = Kit(folder).channel("kafka", {"bootstrap": kafka.bootstrap, "topic": topic, "partitions": 3, **options})
    async with anyio.create_task_group() as tasks:
        await made.start(tasks)
        yield made
        await made.stop()
        tasks.cancel_scope.cancel()


async def append(made: Channel, *events: Event) -> None:
    answers: list[BaseException | None] = []
    made.append(events, answers.append)
    await until(lambda: bool(answers), "the append")
    assert answers == [None]


class Some(Taken):
    """A subscription that drops what is no event."""

    def reject(self, event: Event, outcome: Outcome) -> None:
        self.feed.ack(event.position)


def ids(events: Iterable[Event]) -> list[str]:
    return sorted(str(each.attributes["id"]) for each in events)


async def test_events_are_found_step_by_step(kafka: KafkaBroker, tmp_path: Path) -> None:
    async with channel(kafka, tmp_path) as made:
        assert isinstance(made, Browsable)
        assert isinstance(made, Searchable)
        taken = Some(made)
        await made.open()
        await append(made, *(event(f"{n}", "a.even" if n % 2 == 0 else "b.odd") for n in range(40)))
        foreign = producer(kafka.bootstrap, **{"transactional.id": uuid.uuid4().hex})
        foreign.init_transactions(30)
        for commits in (True, False):
            foreign.begin_transaction()
            for partition in range(3):
                foreign.produce(taken.feed._topic, b"no event", partition=partition)  # type: ignore[attr-defined]
            assert foreign.flush(30) == 0
            foreign.commit_transaction(30) if commits else foreign.abort_transaction(30)

        found: list[Event] = []
        rest, steps, searched = None, 0, 0
        while rest is not None or not steps:
            step = await made.browse({"type": "a.*", "source": "/s"}, 0, EVER, rest, 6)
            assert step.events == sorted(step.events, key=lambda each: -each.received_ns)
            found += step.events
            rest, steps, searched = step.rest, steps + 1, searched + step.searched
        assert ids(found) == sorted(str(n) for n in range(0, 40, 2))
        assert steps >= 3
        assert searched >= 43
        one = next(each for each in found if each.attributes["id"] == "8")
        assert await made.at(one.position) == one
        assert await made.at(one.position + 1000) is None
        assert (await made.browse({}, one.received_ns + 3_600_000_000_000, EVER)).events == []
        assert (await made.browse({}, 0, one.received_ns - 3_600_000_000_000)).searched == 0

        (again,) = (await made.find("8", "/s")).events
        assert (again, again.position) == (one, one.position)
        assert (await made.find("8", "/elsewhere")).events == []
        await until(lambda: len(taken.ids) == 40, "the deliveries")
        assert isinstance(taken.feed, TracksDeliveries)
        assert taken.feed.delivery_state(one.position) == "passed"
        assert taken.feed.delivery_state(one.position + 1000) == "unread"


async def test_large_records_are_read_in_small_windows(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_MOST_BYTES", 200_000)
    async with channel(kafka, tmp_path, partitions=1) as made:
        assert isinstance(made, Browsable)
        await append(made, *(event(f"{n:02}", size=30_000) for n in range(20)))
        found: list[Event] = []
        rest = None
        while len(found) < 20:
            step = await made.browse({}, 0, EVER, rest, 8, 0.0)
            assert step.events
            found, rest = [*found, *step.events], step.rest
        assert ids(found) == [f"{n:02}" for n in range(20)]
        assert rest is None


async def test_a_cluster_that_is_away_is_said(kafka: KafkaBroker, tmp_path: Path) -> None:
    made = Kit(tmp_path).channel("kafka", {"bootstrap": "127.0.0.1:1", "topic": "t", "request_timeout_s": 1})
    assert isinstance(made, Browsable)
    with pytest.raises(StorageError, match=r"Kafka at 127\.0\.0\.1:1"):
        await made.browse({}, 0, EVER)
