"""Requests go out without aiokafka's sender task, and are handed back to it whenever something is wrong."""

from __future__ import annotations

import asyncio
import random
import struct
from collections import defaultdict
from functools import partial
from io import BytesIO
from typing import Any

import anyio
import pytest
from aiokafka.protocol import produce
from gateway_kafka import connect
from gateway_kafka.aio.private.direct_sender import AllWritten, FastProduceRequest
from gateway_kafka.client import KafkaFault
from gateway_kafka.client_config import KafkaProducerConfig
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from tests.kafka.scripted_cluster import NOT_LEADER, Fault, ScriptedCluster
from tests.kafka.test_kafka_producers import Answers, producing
from tests.kafka_broker import context

KEYS = 12
REFUSED, UNKNOWN_PARTITION, TIMED_OUT, TOO_FEW, TOO_FEW_AFTER_APPEND, DISK = 2, 3, 7, 19, 20, 56
OUT_OF_ORDER, DUPLICATE, OLD_EPOCH, UNKNOWN_PRODUCER, FENCED = 45, 46, 47, 59, 90

# what aiokafka sends again with the same sequence numbers
PASSING = {
    "an error, not stored": Fault(TOO_FEW),
    "an error, but stored": Fault(TOO_FEW_AFTER_APPEND, stored=True),
    "the broker's time is up": Fault(TIMED_OUT, stored=True),
    "the disk fails": Fault(DISK),
    "an error of one partition": Fault(TOO_FEW, first=True),
    "an error of one partition, but stored": Fault(TOO_FEW_AFTER_APPEND, stored=True, first=True),
    "the topic is not known yet": Fault(UNKNOWN_PARTITION),
    "a duplicate": Fault(DUPLICATE, stored=True),
    "another leader": Fault(NOT_LEADER, moves=True),
    "another leader for one partition": Fault(NOT_LEADER, first=True, moves=True),
    "the connection ends": Fault(then="close"),
    "the connection ends, but stored": Fault(stored=True, then="close"),
    "silence": Fault(then="silence"),
    "silence, but stored": Fault(stored=True, then="silence"),
    "garbage": Fault(stored=True, then="garbage"),
    "the response to another request": Fault(stored=True, then="other correlation id"),
    "slow": Fault(delay_s=0.25),
    "throttled": Fault(throttle_ms=200),
}
# what only a new producer gets rid of
FATAL = {
    "sequence numbers out of order": Fault(OUT_OF_ORDER),
    "an old epoch": Fault(OLD_EPOCH),
    "an unknown producer": Fault(UNKNOWN_PRODUCER),
    "fenced": Fault(FENCED),
    "fenced, one partition": Fault(FENCED, first=True),
    "an unknown code": Fault(12345),
}


def options(cluster: ScriptedCluster, **more: Any) -> dict[str, Any]:
    return {"bootstrap": cluster.bootstrap, "client": "aiokafka", "request_timeout_s": 0.5, **more}


async def sent(cluster: ScriptedCluster, records: int, under_way: int, pause_s: float = 0.0) -> Answers:
    """The answers to so many records, of which so many were under way at most."""
    async with producing(**options(cluster)) as producer:
        answers = Answers(producer, "t")
        for number in range(records):
            await answers.room(under_way)
            answers.send(b"%d" % (number % KEYS), b"%d" % number)
            if pause_s:
                await anyio.sleep(pause_s)
        await answers.all()
    return answers


def by_key(cluster: ScriptedCluster) -> dict[bytes | None, list[int]]:
    found: dict[bytes | None, list[int]] = defaultdict(list)
    for records in cluster.log.values():
        for key, value in records:
            found[key].append(int(value or b"-1"))
    return found


def complete(records: int) -> dict[bytes | None, list[int]]:
    return {b"%d" % key: list(range(key, records, KEYS)) for key in range(KEYS)}


@pytest.mark.anyio
@pytest.mark.usefixtures("real_time")
@pytest.mark.parametrize("under_way", [1, 12])
@pytest.mark.parametrize("what", PASSING)
async def test_a_fault_that_passes_neither_loses_nor_repeats_nor_reorders(what: str, under_way: int) -> None:
    faults = {4: PASSING[what], 5: PASSING[what], 9: PASSING[what]}
    with ScriptedCluster(faults.get) as cluster:
        answers = await sent(cluster, 120, under_way)
        assert len(cluster.requests) > 9
    assert answers.faults == {}
    assert by_key(cluster) == complete(120)
    assert cluster.producers == 1


@pytest.mark.anyio
@pytest.mark.usefixtures("real_time")
@pytest.mark.parametrize("under_way", [1, 12])
@pytest.mark.parametrize("what", FATAL)
async def test_a_producer_that_is_rejected_is_replaced_and_nothing_is_lost_or_reordered(
    what: str, under_way: int
) -> None:
    with ScriptedCluster({4: FATAL[what]}.get) as cluster:
        answers = await sent(cluster, 120, under_way)
    assert answers.faults == {}
    assert by_key(cluster) == complete(120)
    assert cluster.producers == 2


@pytest.mark.anyio
@pytest.mark.usefixtures("real_time")
@examples(25)
@given(st.integers(0, 1 << 32))
async def test_any_series_of_faults_neither_loses_nor_reorders(seed: int) -> None:
    await any_series(seed)


async def any_series(seed: int) -> None:
    chance = random.Random(seed)
    every = list(PASSING.values())
    fatal = chance.random() < 0.3
    if fatal:
        every += FATAL.values()
    every = chance.sample(every, chance.randint(1, 6))
    share = chance.choice((0.02, 0.1, 0.3))
    records = 150
    with ScriptedCluster(
        lambda number: chance.choice(every) if number < 60 and chance.random() < share else None,
        partitions=chance.choice((1, 2, 5)),
        version=chance.choice((4, 7)),
    ) as cluster:
        answers = await sent(cluster, records, chance.choice((1, 5, 60)), chance.choice((0.0, 0.001)))
    assert answers.faults == {}
    found = by_key(cluster)
    if fatal:  # what was stored and then rejected is written again by the next producer, and what follows it
        found = {key: list(dict.fromkeys(numbers)) for key, numbers in found.items()}
    assert found == complete(records)


@pytest.mark.anyio
@pytest.mark.usefixtures("real_time")
async def test_a_batch_is_retried_although_others_keep_the_new_leader_busy() -> None:
    """aiokafka's task would find the broker busy each time."""
    total, failed = 400, 40

    def script(number: int) -> Fault:
        return Fault(NOT_LEADER, first=True, moves=True) if number == failed else Fault(delay_s=0.004)

    with ScriptedCluster(script, partitions=6) as cluster:
        async with producing(**options(cluster)) as producer:

            def send(key: bytes) -> None:
                producer.send("t", key, b"", [], partial(answered, key))

            def answered(key: bytes, fault: KafkaFault | None) -> None:
                assert fault is None
                if len(cluster.requests) < total:
                    send(key)

            for number in range(30):
                send(b"%d" % number)
            with anyio.fail_after(60):
                while len(cluster.requests) < total or producer.waiting[0]:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
    node, (late, *_) = cluster.requests[failed]
    again = [n for n, (other, partitions) in enumerate(cluster.requests) if other != node and late in partitions]
    assert failed < again[0] < failed + total / 2


@pytest.mark.anyio
@pytest.mark.usefixtures("real_time")
async def test_a_record_that_is_rejected_alone_does_not_hold_up_the_others() -> None:
    with ScriptedCluster({4: Fault(REFUSED)}.get) as cluster:
        answers = await sent(cluster, 60, 1)
    assert {number: fault.retry for number, fault in answers.faults.items()} == {4: False}
    assert by_key(cluster) == {key: [n for n in numbers if n != 4] for key, numbers in complete(60).items()}


@pytest.mark.anyio
@pytest.mark.parametrize("what", ["silence", "an error, not stored", "the connection ends"])
async def test_a_stop_leaves_nothing_behind_while_a_batch_is_in_flight_or_waits_for_its_retry(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ScriptedCluster(lambda number: PASSING[what] if number else None) as cluster:
        before = asyncio.all_tasks()
        config = KafkaProducerConfig.model_validate(options(cluster, request_timeout_s=30))
        producer = connect.producer(config, context())
        async with anyio.create_task_group() as tasks:
            await producer.start(tasks)
            answers = Answers(producer, "t")
            answers.send(b"k", b"1")
            await answers.all()
            answers.send(b"k", b"2")
            with anyio.fail_after(30):
                while len(cluster.requests) < 2:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            with anyio.fail_after(5), anyio.move_on_after(0.05):
                await producer.stop()
            tasks.cancel_scope.cancel()
        assert answers.order == [0]
        left = {getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks() - before}
        assert left <= {"MessageAccumulator.close"}  # aiokafka's own
        assert "retrying" not in caplog.text


class Refusing:
    """A connection of aiokafka's that knows no requests but aiokafka's."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.refused = self.sent = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def send(self, request: Any, expect_response: bool = True) -> Any:
        if isinstance(request, FastProduceRequest):
            self.refused += 1
            raise TypeError("a fault of ours")
        self.sent += 1
        return self._connection.send(request, expect_response)


@pytest.mark.anyio
@pytest.mark.usefixtures("real_time")
async def test_after_a_fault_of_our_own_the_batch_and_all_others_go_through_aiokafkas_sender(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with ScriptedCluster(partitions=1) as cluster:
        async with producing(**options(cluster)) as producer:
            answers = Answers(producer, "t")
            answers.send(b"k", b"0")
            await answers.all()
            connections = producer._connection.client.producer.client._conns  # type: ignore[attr-defined]
            refusing = connections[0, 0] = Refusing(connections[0, 0])
            for number in range(1, 6):
                answers.send(b"k", b"%d" % number)
                await answers.all()
            connections[0, 0] = refusing._connection
    assert answers.faults == {}
    assert [value for _, value in cluster.log["t", 0]] == [b"%d" % number for number in range(6)]
    assert (refusing.refused, refusing.sent >= 5, cluster.producers) == (1, True, 1)
    assert "a fault of ours" in caplog.text


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts callbacks."""

    callbacks = 0

    def call_soon(self, *args: Any, **options: Any) -> asyncio.Handle:
        self.callbacks += 1
        return super().call_soon(*args, **options)


@pytest.mark.slow
def test_a_single_record_takes_few_callbacks() -> None:
    """aiokafka's own sender takes 13."""
    records, loop = 100, CountingLoop()

    async def callbacks(cluster: ScriptedCluster) -> float:
        async with producing(**options(cluster)) as producer:
            for number in range(2 * records):
                if number == records:
                    before = loop.callbacks
                answered = asyncio.Event()
                producer.send("t", b"k", b"v", [], lambda fault, answered=answered: answered.set())
                await answered.wait()
            return (loop.callbacks - before) / records

    with ScriptedCluster() as cluster, asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(callbacks(cluster)) < 10


BATCHES = st.lists(
    st.tuples(
        st.text("abc-ä", min_size=1), st.lists(st.tuples(st.integers(0, 1000), st.binary()), min_size=1, max_size=3)
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@given(BATCHES, st.integers(3, 11), st.integers(0, 2**31 - 1), st.text("cä-9"))
def test_a_request_has_the_same_bytes_as_aiokafkas(topics: Any, newest: int, correlation: int, client: str) -> None:
    versions = {0: (3, newest)}
    ours = FastProduceRequest(-1, 20_000, topics).prepare(versions)
    theirs = produce.ProduceRequest(None, -1, 20_000, topics).prepare(versions)
    assert ours.encode() == theirs.encode()
    heads = [r.build_request_header(correlation_id=correlation, client_id=client).encode() for r in (ours, theirs)]
    assert heads[0] == heads[1]


@pytest.mark.slow
@given(
    st.integers(5, 7),
    st.lists(st.tuples(st.text("tä"), st.lists(st.sampled_from([0, 0, 0, 6]), max_size=3)), max_size=3),
)
def test_a_response_without_errors_counts_its_batches_and_any_other_is_aiokafkas(version: int, codes: Any) -> None:
    response = getattr(produce, f"ProduceResponse_v{version}")
    answer = response([(topic, [(n, code, 5, -1, 0) for n, code in enumerate(found)]) for topic, found in codes], 9)
    stream = BytesIO(struct.pack(">i", 7) + answer.encode())
    request = FastProduceRequest(-1, 1000, [("t", [(0, b"")])]).prepare({0: (3, version)})
    assert request.parse_response_header(stream).correlation_id == 7
    decoded = request.RESPONSE_TYPE.decode(stream)
    every = [code for _, found in codes for code in found]
    if any(every):
        assert decoded == answer
    else:
        assert isinstance(decoded, AllWritten)
        assert decoded.batches == len(every)
