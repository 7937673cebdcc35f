"""The Kafka source and what takes its events: an intake that is full, storage that fails, records that are no event."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_java.kafka import KafkaBroker
from gateway_kafka import flow
from gateway_kafka.client import Record
from gateway_kafka.client_config import KafkaConfig
from gateway_kafka.groups import Group
from gateway_kafka.offsets import look
from gateway_testing.suites import Kit, MemoryIntake
from gateway_testing.suites.kit import until
from gateway_transport.witness import Witnessed

from gateway_core.contract.capabilities import Watched
from gateway_core.contract.errors import Overloaded, Refused, StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Accepted, Outcome
from tests.kafka_broker import TWIN_CLIENTS, producer

pytestmark = pytest.mark.anyio


class Intake(MemoryIntake):
    """Never stores an event with the id `bad`; tells how often it was asked, and the stages of letters."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.taken: list[str] = []
        self.stages: list[str] = []
        self.letter_result: BaseException | None = None

    def accept(self, events: Sequence[Event], done: Accepted) -> None:
        self.asked += 1
        ids = [str(e.attributes["id"]) for e in events]
        if self.result is None and "bad" in ids:
            done(Refused("too large"))
            return
        if self.result is None:
            self.taken += ids
        super().accept(events, done)

    def undeliverable(self, event: Event, outcome: Outcome, dest: str, done: Accepted) -> None:
        self.stages.append(outcome.stage)
        self.letters.append((event, outcome, dest))
        done(self.letter_result)


class Topic:
    """A topic of the test's own, read by a source into `intake`."""

    def __init__(self, kafka: KafkaBroker, folder: Path, partitions: int, **options: Any) -> None:
        self.name = f"source-{uuid.uuid4().hex[:8]}"
        kafka.create_topic(self.name, partitions)
        self.intake = Intake()
        self._producer = producer(kafka.bootstrap)
        place = {"bootstrap": kafka.bootstrap, "topic": self.name, "group": self.name, "start": "earliest"}
        self.source = Kit(folder).source("kafka", {**place, "commit_interval_s": 0.05, "drain_s": 0, **options})

    def write(self, *ids: str | None, partition: int = 0) -> None:
        """Events with these ids; None is no event."""
        for id in ids:
            own = {"specversion": "1.0", "source": "/s", "type": "t", "id": id}
            headers: dict[str, str | bytes | None] = {f"ce_{n}": v for n, v in own.items()} if id else {}
            self._producer.produce(self.name, id or "nonsense", headers=headers, partition=partition)
        assert self._producer.flush(30) == 0

    @property
    def lag(self) -> int:
        assert isinstance(self.source, Watched)
        return int(self.source.info()["lag"])

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Intake]:
        async with anyio.create_task_group() as tasks:
            await self.source.start(self.intake, tasks)
            yield self.intake
            await self.source.stop()
            tasks.cancel_scope.cancel()

    async def done(self, *taken: str) -> None:
        await until(lambda: sorted(self.intake.taken) == sorted(taken) and self.lag == 0, f"{taken}")


async def test_an_intake_that_is_full_is_asked_now_and_then(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = Topic(kafka, tmp_path, 4)
    for partition in range(4):
        topic.write(*(f"{partition}-{n}" for n in range(5)), partition=partition)
    topic.intake.stores, topic.intake.result = False, Overloaded("full")
    async with topic.read() as intake:
        await until(lambda: len({e.attributes["id"] for e in intake.events}) == 4, "all partitions to wait")
        asked, start = intake.asked, anyio.current_time()
        await anyio.sleep(0.3)
        assert intake.asked - asked <= 4 * ((anyio.current_time() - start) / 0.02 + 2)
        intake.result = None
        await topic.done(*(f"{p}-{n}" for p in range(4) for n in range(5)))


async def test_while_storage_fails_nothing_more_is_taken_and_then_all_in_order(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = Topic(kafka, tmp_path, 1, max_poll_records=2)
    topic.write(*"abcdefgh")
    topic.intake.result = StorageError("the disk is full")
    async with topic.read() as intake:
        await until(lambda: intake.asked == 2, "a second try")
        assert {e.attributes["id"] for e in intake.events} <= {"a", "b"}
        intake.result = None
        await topic.done(*"abcdefgh")
        assert intake.taken == list("abcdefgh")
        assert intake.letters == []


async def test_what_a_channel_never_takes_goes_to_the_dead_letter_alone(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = Topic(kafka, tmp_path, 1)
    topic.write("a", "b", "bad", "c", "d")
    places: dict[Any, str] = {}
    assert isinstance(topic.source, Witnessed)
    topic.source.witness(lambda events, origin: places.update({e.attributes["id"]: origin.place for e in events}))
    async with topic.read() as intake:
        await topic.done(*"abcd")
        assert places["bad"] == f"topic {topic.name}, partition 0, offset 2"
        ((event, outcome, dest),) = intake.letters
        assert (event.attributes["id"], outcome.reason, dest) == ("bad", "too large", topic.source.address)
        assert intake.stages == ["delivery"]


@pytest.mark.parametrize("stores", [True, False], ids=["broker", "bridge"])
async def test_a_wrapped_record_keeps_its_turn(kafka: KafkaBroker, tmp_path: Path, stores: bool) -> None:
    topic = Topic(kafka, tmp_path, 1, not_an_event="wrap")
    topic.write("a", None, "b", None, "c")
    topic.intake.stores = stores
    async with topic.read() as intake:
        await topic.done("a", "0:1", "b", "0:3", "c")
        assert intake.taken == ["a", "0:1", "b", "0:3", "c"]
        wrapped = intake.events[1]
        assert (wrapped.attributes["type"], wrapped.data) == ("dev.tidegate.kafka.record", b"nonsense")
        assert wrapped.received_ns > 0


async def test_a_record_that_is_no_event_goes_to_the_dead_letter(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = Topic(kafka, tmp_path, 1)
    topic.write("a", None, "b")
    async with topic.read() as intake:
        await topic.done("a", "b")
        assert [e.data for e, _, _ in intake.letters] == [b"nonsense"]
        assert intake.stages == ["decode"]


@pytest.mark.spec("SAFE-34")
@pytest.mark.parametrize("what", ["drop", "wrap"])
async def test_a_record_too_large_for_memory_is_neither_dropped_nor_wrapped(
    kafka: KafkaBroker, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "MOST_AGAIN", 2)
    monkeypatch.setattr(flow, "RETRY_S", 0.01)
    topic = Topic(kafka, tmp_path, 1, not_an_event=what)
    decode = topic.source._flow._decode  # type: ignore[attr-defined]

    def greedy(record: Record) -> Event:
        if record.offset == 1:
            raise MemoryError
        event: Event = decode(record)
        return event

    monkeypatch.setattr(topic.source._flow, "_decode", greedy)  # type: ignore[attr-defined]
    topic.write("a", "b", "c")
    async with topic.read() as intake:
        await topic.done("a", "c")
        assert intake.stages == ["decode"]


async def test_where_there_is_no_dead_letter_it_waits_and_the_others_go_on(
    kafka: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = Topic(kafka, tmp_path, 1)
    topic.write("a", None, "b")
    topic.intake.letter_result = StorageError("there is no dead letter")
    async with topic.read() as intake:
        await until(lambda: intake.taken == ["a", "b"], "the others")
        await until(lambda: topic.lag == 2, "its place to be kept")
    assert [r.getMessage() for r in caplog.records if "dead letter" in r.getMessage()] == [
        "test.source: can't write a record to the dead letter, will retry: there is no dead letter"
    ]


class Behind(Intake):
    """A channel that refuses large groups for now, a moment after they came, as the log does when it is behind."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = 0

    def accept(self, events: Sequence[Event], done: Accepted) -> None:
        if (len(events) > 100 and self.refused < 2) or any(e.attributes["id"] == "bad" for e in events):
            bad = any(e.attributes["id"] == "bad" for e in events)
            self.refused += not bad
            error = Refused("too large") if bad else Overloaded("the disk is behind")
            asyncio.get_running_loop().call_soon(done, error)
            return
        self.taken += [str(e.attributes["id"]) for e in events]
        asyncio.get_running_loop().call_later(0.005, done, None)


@pytest.mark.spec("SAFE-59")
@pytest.mark.parametrize("bad", [False, True], ids=["all good", "one is never taken"])
async def test_what_is_refused_for_now_is_not_overtaken(kafka: KafkaBroker, tmp_path: Path, bad: bool) -> None:
    topic = Topic(kafka, tmp_path, 1, max_poll_records=600)
    topic.intake = Behind()
    ids = [str(number) for number in range(700)]
    if bad:
        ids[300] = "bad"
    topic.write(*ids)
    async with topic.read() as intake:
        await until(lambda: len(intake.taken) >= 700 - bad and topic.lag == 0, "all events")
        assert intake.taken == [id for id in ids if id != "bad"]
        assert len(intake.letters) == bad


@pytest.mark.spec("SAFE-60")
async def test_who_has_stopped_tries_nothing_again(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = Topic(kafka, tmp_path, 2)
    topic.write("a", "b", partition=0)
    topic.write(None, partition=1)
    topic.intake.result = StorageError("the disk is full")
    topic.intake.letter_result = StorageError("there is no dead letter")
    async with topic.read() as intake:
        await until(lambda: intake.asked > 0 and bool(intake.stages), "both to fail")
    asked, letters = intake.asked, len(intake.stages)
    await anyio.sleep(5.3)
    assert (intake.asked, len(intake.stages)) == (asked, letters)


@pytest.mark.spec("SAFE-63")
@pytest.mark.parametrize("client", TWIN_CLIENTS)
async def test_a_group_catches_up_behind_aborted_records_and_marks(
    kafka: KafkaBroker, tmp_path: Path, client: str
) -> None:
    topic = Topic(kafka, tmp_path, 2, client=client)
    writing = producer(kafka.bootstrap, **{"transactional.id": topic.name})
    writing.init_transactions(30)

    def transaction(*ids: str, abort: bool = False) -> None:
        writing.begin_transaction()
        for id in ids:
            own: list[tuple[str, str | bytes | None]] = [
                (f"ce_{name}", value)
                for name, value in {"specversion": "1.0", "source": "/s", "type": "t", "id": id}.items()
            ]
            writing.produce(topic.name, id, headers=own, partition=0)
        writing.abort_transaction(30) if abort else writing.commit_transaction(30)

    def lag() -> int:
        (found,) = anyio.run(look, [Group(topic.name, (topic.name,), KafkaConfig(bootstrap=[kafka.bootstrap]))])
        return found.lag

    async def caught_up() -> None:
        with anyio.fail_after(60):
            while await anyio.to_thread.run_sync(lag):  # noqa: ASYNC110 only the cluster knows
                await anyio.sleep(0.1)

    async with topic.read():
        await anyio.to_thread.run_sync(transaction, "a", "b")
        await anyio.to_thread.run_sync(partial(transaction, "c", "d", abort=True))
        await topic.done("a", "b")
        await caught_up()
        await anyio.to_thread.run_sync(transaction, "e")
        await topic.done("a", "b", "e")
        await caught_up()
