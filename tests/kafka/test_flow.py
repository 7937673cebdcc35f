"""Between a consumer and who takes its events: room, order, what is committed, and partitions that come and go.

The consumer and the taker are scripted: they are the two protocols that the flow stands between.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import TaskGroup
from gateway_kafka import flow as flows
from gateway_kafka.client import KafkaFault, Partition, Record
from gateway_kafka.flow import Flow

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import PARTITION_BITS, Event

pytestmark = pytest.mark.anyio

ONE, TWO = ("t", 0), ("t", 1)


def record(offset: int, value: bytes | None = b"event") -> Record:
    return Record(offset, 0, None, value, [])


def decode(record: Record) -> Event:
    if record.value is None:
        raise Refused("no event")
    return Event({"id": str(record.offset)}, record.value)


class ScriptedConsumer:
    """A consumer whose group and broker are the test."""

    def __init__(self) -> None:
        self.fault: KafkaFault | None = None
        self.error: KafkaFault | None = None
        self.paused: set[Partition] = set()
        self.committed: dict[Partition, int] = {}
        self.commits = 0
        self.rebalancing = False
        self.answer: anyio.Event | None = None

    async def start(self, tasks: TaskGroup) -> None:
        return

    async def stop(self) -> None:
        return

    def pause(self, partition: Partition) -> None:
        assert partition not in self.paused, "paused twice"
        self.paused.add(partition)

    def resume(self, partition: Partition) -> None:
        self.paused.remove(partition)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        self.commits += 1
        if self.answer is not None:
            await self.answer.wait()
        if self.error is not None:
            raise self.error
        if not self.rebalancing:
            self.committed.update(offsets)


class ScriptedTaker:
    """Takes while it has room. `waiting` are the positions that nothing is done about: they can be withdrawn."""

    def __init__(self, room: int = 1_000_000) -> None:
        self.room = room
        self.taken: list[int] = []  # positions
        self.held: list[int] = []
        self.waiting: set[int] = set()
        self.refused: list[int] = []
        self.instead: Event | None = None
        self.at_once = False
        self.flow: Flow

    def take(self, events: Sequence[Event]) -> int:
        for count, event in enumerate(events):
            if len(self.held) >= self.room:
                return count
            self.taken.append(event.position)
            self.held.append(event.position)
            if self.at_once:
                self.settle(event.position)
        return len(events)

    def settle(self, *positions: int) -> None:
        for position in positions:
            self.held.remove(position)
            self.flow.settle(position)

    def refuse(self, record: Record, partition: Partition, position: int, error: Refused) -> Event | None:
        self.refused.append(position)
        if self.instead is None:
            self.flow.settle(position)
        return self.instead

    def withdraw(self, source: int) -> Sequence[int]:
        gone = [p for p in self.held if p in self.waiting and p >> PARTITION_BITS == source]
        self.held = [p for p in self.held if p not in gone]
        return gone


class Rig:
    def __init__(
        self,
        room: int = 1_000_000,
        *,
        drain_s: float = 0.05,
        chunk: int = 4,
        decode: Callable[[Record], Event] = decode,
    ) -> None:
        self.consumer = ScriptedConsumer()
        self.taker = ScriptedTaker(room)
        self.flow = self.taker.flow = Flow(
            *(self.taker, decode, SystemClock()),
            commit_interval_s=0.001,
            drain_s=drain_s,
            partition_id_of=lambda partition: partition[1],
            chunk=chunk,
        )
        self.flow.consumer = self.consumer

    def fetch(self, first: int, count: int, partition: Partition = ONE) -> None:
        assert partition not in self.consumer.paused
        self.flow.fetched(partition, [record(o) for o in range(first, first + count)], first + count)

    def taken(self, partition: Partition = ONE) -> list[int]:
        """The offsets that were handed out, also those of topics that were recreated."""
        numbers = [(position, position >> PARTITION_BITS) for position in self.taker.taken]
        return [offset(p) for p, number in numbers if number == partition[1] or number >= flows.RENEWED]


def offset(position: int) -> int:
    return (position & ((1 << PARTITION_BITS) - 1)) - 1


@asynccontextmanager
async def running(rig: Rig, start: Mapping[Partition, int] | None = None) -> AsyncIterator[Rig]:
    async with anyio.create_task_group() as tasks:
        await rig.flow.start(tasks)
        rig.flow.assigned(start if start is not None else {ONE: 0, TWO: 0})
        yield rig
        tasks.cancel_scope.cancel()


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.001)


# -- back-pressure and bounds -----------------------------------------------------------------------------------------


async def test_events_are_handed_out_in_order_and_committed_once_settled() -> None:
    async with running(Rig()) as rig:
        rig.fetch(0, 10)
        assert rig.taken() == list(range(10))
        rig.taker.settle(*rig.taker.held[1:])
        rounds = rig.consumer.commits
        await anyio.sleep(0.01)
        assert (rig.consumer.committed, rig.consumer.commits) == ({}, rounds), "nothing new is safe"
        rig.taker.settle(*rig.taker.held)
        await until(lambda: rig.consumer.committed == {ONE: 10})


@pytest.mark.spec("SAFE-34")
@pytest.mark.parametrize("error", [MemoryError(), SystemError("error return without exception set")])
@pytest.mark.parametrize("cause", [False, True])
async def test_a_record_that_memory_is_too_short_for_is_read_again(
    error: Exception, cause: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = 3

    def decode_if_there_is_memory(record: Record) -> Event:
        nonlocal left
        if record.offset == 2 and left:
            left -= 1
            if cause:
                raise Refused("the codec failed") from error
            raise error
        return decode(record)

    monkeypatch.setattr(flows, "RETRY_S", 0.001)
    async with running(Rig(decode=decode_if_there_is_memory)) as rig:
        rig.fetch(0, 5)
        assert rig.taken() == [0, 1]
        await until(lambda: rig.taken() == [0, 1, 2, 3, 4])
        assert rig.taker.refused == []
        rig.taker.settle(*rig.taker.held)
        await until(lambda: rig.consumer.committed == {ONE: 5})


@pytest.mark.spec("SAFE-34")
async def test_records_too_large_for_memory_hold_up_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = {2: 0, 3: 0}

    def greedy(record: Record) -> Event:
        if record.offset in tries:
            tries[record.offset] += 1
            raise MemoryError
        return Event({"id": str(record.offset)}, record.value)

    monkeypatch.setattr(flows, "RETRY_S", 0.001)
    monkeypatch.setattr(flows, "MOST_AGAIN", 3)
    async with running(Rig(decode=greedy)) as rig:
        rig.fetch(0, 5)
        await until(lambda: rig.taken() == [0, 1, 4])
        assert [offset(p) for p in rig.taker.refused] == [2, 3]
        assert tries == {2: 4, 3: 4}
        rig.taker.settle(*rig.taker.held)
        await until(lambda: rig.consumer.committed == {ONE: 5})


async def test_what_finds_no_room_waits_and_its_partition_is_paused() -> None:
    async with running(Rig(room=3)) as rig:
        rig.fetch(0, 10)
        assert rig.taken() == [0, 1, 2]
        assert rig.consumer.paused == {ONE}
        rig.flow.resume()  # there is none yet
        assert rig.taken() == [0, 1, 2]
        rig.taker.settle(*rig.taker.held)
        rig.flow.resume()
        assert rig.taken() == [0, 1, 2, 3, 4, 5]
        rig.taker.room = 100
        rig.flow.resume()
        assert rig.taken() == list(range(10))
        assert rig.consumer.paused == set()


async def test_a_full_partition_is_resumed_in_its_turn_beside_others() -> None:
    async with running(Rig(room=2)) as rig:
        rig.fetch(0, 3)
        rig.fetch(0, 3, TWO)
        assert rig.consumer.paused == {ONE, TWO}
        for _ in range(3):
            rig.taker.settle(*rig.taker.held)
            rig.flow.resume()
        assert (rig.taken(), rig.taken(TWO)) == ([0, 1, 2], [0, 1, 2])
        assert rig.consumer.paused == set()


async def test_what_is_settled_while_it_is_taken_needs_no_stack() -> None:
    async with running(Rig(room=1)) as rig:
        rig.taker.at_once = True
        rig.fetch(0, 5000)
        assert rig.taken() == list(range(5000))
        assert rig.consumer.paused == set()


async def test_no_more_than_a_bound_are_begun_after_one_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "MAX_AHEAD", 20)
    async with running(Rig()) as rig:
        rig.fetch(0, 50)
        assert rig.taken() == list(range(20))
        assert rig.consumer.paused == {ONE}
        first, *rest = rig.taker.held
        rig.taker.settle(*rest)
        assert rig.taken() == list(range(20)), "the first still hangs"
        rig.taker.settle(first)
        assert rig.taken() == list(range(40))
        rig.taker.settle(*rig.taker.held)
        assert rig.taken() == list(range(50))
        assert rig.consumer.paused == set()


async def test_other_partitions_go_on_while_one_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "MAX_AHEAD", 5)
    async with running(Rig()) as rig:
        rig.fetch(0, 9)
        rig.fetch(0, 5, TWO)
        rig.taker.settle(*[p for p in rig.taker.held if p >> PARTITION_BITS == TWO[1]])
        await until(lambda: rig.consumer.committed == {TWO: 5})
        assert len(rig.taken()) == 5


async def test_gaps_in_offsets_are_passed_over() -> None:
    async with running(Rig(), {ONE: 5}) as rig:
        rig.flow.fetched(ONE, [record(o) for o in (7, 8, 20)], 25)
        assert rig.flow.lag() == 18
        rig.taker.settle(*rig.taker.held)
        await until(lambda: rig.consumer.committed == {ONE: 21})


# -- records that hold no event ---------------------------------------------------------------------------------------


async def test_a_refused_record_holds_up_nobody() -> None:
    async with running(Rig()) as rig:
        rig.flow.fetched(ONE, [record(0), record(1, None), record(2)], 3)
        assert [offset(p) for p in rig.taker.refused] == [1]
        assert rig.taken() == [0, 2]
        rig.taker.settle(*rig.taker.held)
        await until(lambda: rig.consumer.committed == {ONE: 3})


async def test_a_partition_of_refused_records_alone_moves_on() -> None:
    async with running(Rig()) as rig:
        rig.flow.fetched(ONE, [record(n, None) for n in range(100)], 100)
        await until(lambda: rig.consumer.committed == {ONE: 100})
        assert rig.consumer.paused == set()


async def test_an_event_instead_of_a_refused_record_is_taken_in_its_turn() -> None:
    async with running(Rig(room=2)) as rig:
        rig.taker.instead = Event({"id": "wrapped"})
        rig.flow.fetched(ONE, [record(0), record(1), record(2, None), record(3)], 4)
        assert rig.taken() == [0, 1]
        assert rig.consumer.committed == {}
        rig.taker.settle(*rig.taker.held)
        rig.flow.resume()
        assert rig.taken() == [0, 1, 2, 3]
        rig.taker.settle(*rig.taker.held)
        await until(lambda: rig.consumer.committed == {ONE: 4})


# -- commits ----------------------------------------------------------------------------------------------------------


async def test_a_commit_that_fails_is_made_later(caplog: pytest.LogCaptureFixture) -> None:
    async with running(Rig()) as rig:
        rig.consumer.error = KafkaFault("the coordinator is down")
        rig.fetch(0, 4)
        rig.taker.settle(*rig.taker.held)
        await until(lambda: rig.consumer.commits > 3)
        assert rig.consumer.committed == {}
        assert [r.getMessage() for r in caplog.records].count(
            "can't commit offsets, will retry: the coordinator is down"
        ) == 1, "said once"
        rig.fetch(4, 2)
        rig.taker.settle(*rig.taker.held)
        rig.consumer.error = None
        await until(lambda: rig.consumer.committed == {ONE: 6})


async def test_a_commit_that_a_new_assignment_overtook_is_made_good() -> None:
    """A client may have repeated it with the new generation, so that it overwrote what others had committed."""
    async with running(Rig()) as rig:
        answer = rig.consumer.answer = anyio.Event()
        rig.fetch(0, 4)
        rig.taker.settle(*rig.taker.held)
        await until(lambda: rig.consumer.commits)
        rig.flow.lost([ONE])
        rig.flow.assigned({ONE: 7})
        answer.set()
        await until(lambda: rig.consumer.committed == {ONE: 7})


async def test_nothing_is_committed_twice() -> None:
    async with running(Rig()) as rig:
        rig.fetch(0, 4)
        rig.taker.settle(*rig.taker.held)
        await until(lambda: rig.consumer.committed == {ONE: 4})
        commits = rig.consumer.commits
        await anyio.sleep(0.02)
        assert rig.consumer.commits == commits


# -- partitions come and go -------------------------------------------------------------------------------------------


async def test_a_revoked_partition_waits_for_what_is_under_way_and_returns_what_is_safe() -> None:
    async with running(Rig(drain_s=30)) as rig:
        rig.fetch(0, 6)
        rig.fetch(0, 6, TWO)
        under_way = rig.taker.held[:3]
        rig.taker.waiting = set(rig.taker.held[3:6])
        answer: list[Mapping[Partition, int]] = []

        async def revoke() -> None:
            answer.append(await rig.flow.revoked([ONE]))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(revoke)
            await anyio.sleep(0.02)
            assert answer == []
            rig.fetch(6, 2)  # a record that comes too late is nobody's
            rig.taker.settle(*under_way)
        assert answer == [{ONE: 3}]
        assert rig.taken() == list(range(6))
        assert len(rig.taken(TWO)) == 6, "the other partition stays"


async def test_a_commit_that_came_to_nothing_is_made_when_its_partition_goes() -> None:
    async with running(Rig()) as rig:
        rig.consumer.rebalancing = True
        rig.fetch(0, 6)
        rig.taker.settle(*rig.taker.held)
        await until(lambda: rig.consumer.commits)
        assert await rig.flow.revoked([ONE, TWO]) == {ONE: 6}


async def test_a_revoked_partition_waits_no_longer_than_it_may() -> None:
    async with running(Rig(drain_s=0.01)) as rig:
        rig.fetch(0, 6)
        rig.taker.settle(*rig.taker.held[:2], *rig.taker.held[4:])
        with anyio.fail_after(60):
            assert await rig.flow.revoked([ONE]) == {ONE: 2}


async def test_a_revoked_partition_that_found_no_room_does_not_wait() -> None:
    async with running(Rig(room=0, drain_s=1000)) as rig:
        rig.fetch(0, 6)
        with anyio.fail_after(60):
            assert await rig.flow.revoked([ONE, TWO]) == {}
        rig.taker.room = 100
        rig.flow.resume()
        assert rig.taken() == []


async def test_withdrawn_events_of_an_earlier_time_are_not_counted_for_this_one() -> None:
    async with running(Rig(drain_s=30)) as rig:
        rig.fetch(0, 3)
        stale = set(rig.taker.held)
        rig.flow.lost([ONE])  # what was under way stays with the taker
        rig.flow.assigned({ONE: 3})
        rig.fetch(3, 3)
        rig.taker.waiting = stale
        under_way = [p for p in rig.taker.held if p not in stale]
        answer: list[Mapping[Partition, int]] = []

        async def revoke() -> None:
            answer.append(await rig.flow.revoked([ONE]))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(revoke)
            await anyio.sleep(0.02)
            assert answer == [], "three are under way"
            rig.taker.settle(*under_way)
        assert answer == [{ONE: 6}]


async def test_nothing_is_committed_for_a_lost_partition() -> None:
    async with running(Rig()) as rig:
        rig.fetch(0, 4)
        held = list(rig.taker.held)
        rig.flow.lost([ONE])
        rig.taker.settle(*held)
        await anyio.sleep(0.02)
        assert rig.consumer.committed == {}
        assert rig.flow.lag() == 0
        assert await rig.flow.revoked([ONE]) == {}


async def test_a_partition_that_comes_back_begins_at_its_committed_offset_unpaused() -> None:
    async with running(Rig(room=3)) as rig:
        rig.fetch(0, 9)
        assert rig.consumer.paused == {ONE}
        rig.taker.waiting = set(rig.taker.held)
        assert await rig.flow.revoked([ONE]) == {}
        rig.consumer.paused.clear()
        rig.flow.assigned({ONE: 0})
        rig.fetch(0, 2)
        assert rig.taken() == [0, 1, 2, 0, 1]
        assert rig.consumer.paused == set()


@pytest.mark.parametrize(
    ("back_at", "again"),
    [
        pytest.param(101, [101, 103], id="at the same place"),
        pytest.param(100, [100, 101, 102, 103], id="at an earlier place"),
    ],
)
async def test_what_was_settled_ahead_is_not_handed_out_again_when_its_partition_comes_back(
    back_at: int, again: list[int]
) -> None:
    async with running(Rig(drain_s=0), {ONE: 100}) as rig:
        rig.fetch(100, 4)
        rig.taker.settle(*(p for p in list(rig.taker.held) if offset(p) in (100, 102)))
        assert await rig.flow.revoked([ONE]) in ({}, {ONE: 101})  # it may be committed by now
        rig.taker.taken.clear()
        rig.flow.assigned({ONE: back_at})
        rig.fetch(back_at, 104 - back_at)
        assert rig.taken() == again
        rig.taker.settle(*(ONE[1] << PARTITION_BITS | o + 1 for o in again))
        await until(lambda: rig.consumer.committed == {ONE: 104})


async def test_a_late_settle_counts_for_the_partition_that_came_back() -> None:
    async with running(Rig(drain_s=0)) as rig:
        rig.fetch(0, 2)
        late = list(rig.taker.held)
        assert await rig.flow.revoked([ONE]) == {}
        rig.taker.settle(late[1])  # between
        rig.flow.assigned({ONE: 0})
        rig.taker.settle(late[0])  # before it was read again
        rig.fetch(0, 2)
        assert rig.taken() == [0, 1, 0, 1]
        await anyio.sleep(0.02)
        assert rig.consumer.committed == {}
        rig.taker.settle(*rig.taker.held)
        await until(lambda: rig.consumer.committed == {ONE: 2})


async def test_a_partition_that_was_made_anew_is_read_from_where_it_goes_on() -> None:
    async with running(Rig(), {ONE: 100}) as rig:
        rig.fetch(100, 3)
        rig.fetch(0, 2)
        assert rig.taken() == [100, 101, 102, 0, 1]
        rig.taker.settle(*rig.taker.held)
        await until(lambda: rig.consumer.committed == {ONE: 2})


async def test_after_close_nothing_is_handed_out_and_all_can_be_settled() -> None:
    async with running(Rig(room=2)) as rig:
        rig.fetch(0, 4)
        await rig.flow.stop()
        rig.taker.settle(*rig.taker.held)
        rig.flow.resume()
        rig.fetch(0, 4, TWO)
        assert rig.taken() == [0, 1]
        assert rig.taken(TWO) == []
        assert await rig.flow.revoked([ONE, TWO]) in ({}, {ONE: 2})  # it may be committed by now


async def test_records_that_come_after_close_are_not_committed_as_passed() -> None:
    """A fetch that ends as the gateway stops: the consumer is past its records, and nobody has them."""
    async with running(Rig()) as rig:
        await rig.flow.stop()
        rig.fetch(0, 5)
        rig.flow.passed(ONE, 5)
        assert await rig.flow.revoked([ONE]) == {}


async def test_it_tells_of_its_partitions() -> None:
    async with running(Rig(room=2)) as rig:
        rig.fetch(0, 4)
        rig.taker.settle(rig.taker.held[0])
        assert rig.flow.info() == {"error": None, "lag": 3, "partitions": {"t-0": [1, 4], "t-1": [0, 0]}}
        rig.consumer.fault = KafkaFault("no broker answers")
        assert rig.flow.info()["error"] == "no broker answers"


async def test_it_has_joined_also_without_a_partition() -> None:
    async with running(Rig(), {}) as rig:
        assert rig.flow.joined.is_set()


# -- topics that are deleted and created again ------------------------------------------------------------------------


async def test_what_is_in_flight_of_a_deleted_topic_settles_no_record_of_the_new_one() -> None:
    rig = Rig(drain_s=0.001)
    async with anyio.create_task_group() as tasks:
        await rig.flow.start(tasks)
        rig.flow.assigned({ONE: 0}, {"t": "old"})
        rig.fetch(0, 3)
        old = list(rig.taker.held)
        await rig.flow.revoked([ONE])
        rig.flow.assigned({ONE: 0}, {"t": "new"})
        rig.fetch(0, 3)
        new = [position for position in rig.taker.held if position not in old]
        assert [offset(position) for position in new] == [0, 1, 2]
        rig.taker.settle(*old)
        assert rig.flow.info()["partitions"] == {"t-0": [0, 3]}
        rig.taker.settle(*new)
        await until(lambda: rig.consumer.committed == {ONE: 3})
        tasks.cancel_scope.cancel()


async def test_what_is_in_flight_settles_nothing_once_its_partition_went_back() -> None:
    async with running(Rig(), {ONE: 5}) as rig:
        rig.fetch(5, 2)
        old = list(rig.taker.held)
        rig.fetch(0, 7)  # the topic was recreated, and is longer already
        rig.taker.settle(*old)
        assert rig.flow.info()["partitions"] == {"t-0": [0, 7]}
        assert rig.flow.delivery_state(ONE[1] << PARTITION_BITS | 6) == "pending"
        rig.taker.settle(*rig.taker.held)
        await until(lambda: rig.consumer.committed == {ONE: 7})
