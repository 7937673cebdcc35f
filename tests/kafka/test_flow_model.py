"""Whatever happens between a consumer and its taker: nothing is skipped, nothing is handed out twice by one assignment,
nothing is committed that is not settled, and in the end all is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskGroup
from gateway_kafka import flow as flows
from gateway_kafka.client import KafkaFault, Partition, Record
from gateway_kafka.flow import Flow
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import PARTITION_BITS, Event
from tests.budget import examples

PARTITIONS: list[Partition] = [("t", 0), ("t", 1)]
COUNT = 12
STEPS = st.tuples(
    st.sampled_from(["fetch", "fetch", "settle", "settle", "begin", "room", "revoke", "lose", "late", "fail"]),
    st.integers(0, 30),
)
KINDS = st.sampled_from(["event", "event", "drop", "wrap", "later"])
TOPICS = st.lists(st.lists(st.tuples(st.integers(1, 3), KINDS), max_size=COUNT), min_size=2, max_size=2)


def place(position: int) -> tuple[Partition, int]:
    """Partition and offset."""
    return PARTITIONS[position >> PARTITION_BITS], (position & ((1 << PARTITION_BITS) - 1)) - 1


class World:
    """A topic, its group, and who takes the events; checks what the flow does at every call."""

    def __init__(self, topic: list[list[tuple[int, str]]]) -> None:
        self.records: dict[Partition, dict[int, str]] = {}
        for partition, steps in zip(PARTITIONS, topic, strict=True):
            offset = -1
            self.records[partition] = {}
            for gap, kind in steps:
                offset += gap
                self.records[partition][offset] = kind
        self.settled: dict[Partition, set[int]] = {p: set() for p in PARTITIONS}
        self.committed = dict.fromkeys(PARTITIONS, 0)
        self.read: dict[Partition, int] = {}  # next to fetch, of assigned ones
        self.handed: dict[Partition, int] = {}  # next to be handed out, likewise
        self.paused: set[Partition] = set()
        self.room = 3
        self.full = False
        self.waiting: list[int] = []
        self.begun: list[int] = []
        self.late: list[int] = []
        self.fault: KafkaFault | None = None
        self.fails = False
        self.flow = Flow(
            *(self, self._decode, SystemClock()),
            commit_interval_s=0,
            drain_s=0,
            partition_id_of=lambda partition: partition[1],
            chunk=3,
        )
        self.flow.consumer = self

    # -- the consumer -------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        return

    async def stop(self) -> None:
        return

    def pause(self, partition: Partition) -> None:
        assert partition in self.read
        self.paused.add(partition)

    def resume(self, partition: Partition) -> None:
        assert partition in self.paused
        self.paused.discard(partition)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        if self.fails:
            raise KafkaFault("not now")
        for partition, offset in offsets.items():
            assert partition in self.read
            self._commit(partition, offset)

    def _commit(self, partition: Partition, offset: int) -> None:
        open = [o for o in self.records[partition] if o < offset and o not in self.settled[partition]]
        assert not open, f"{offset} is committed, and {open} are not settled"
        assert offset >= self.committed[partition]
        self.committed[partition] = offset

    # -- the taker ----------------------------------------------------------------------------------------------------

    def _decode(self, record: Record) -> Event:
        kind = record.value.decode() if record.value else ""
        if kind != "event":
            raise Refused(kind)
        return Event({})

    def take(self, events: Sequence[Event]) -> int:
        for count, event in enumerate(events):
            if not self._free():
                self.full = True
                return count
            self._handed(event.position)
            self.waiting.append(event.position)
        return len(events)

    def _free(self) -> bool:
        return len(self.waiting) + len(self.begun) < self.room

    def _resume(self) -> None:
        """Only after it had said that there was no room."""
        if self.full and self._free():
            self.full = False
            self.flow.resume()

    def refuse(self, record: Record, partition: Partition, position: int, error: Refused) -> Event | None:
        assert (partition, record.offset) == place(position)
        if error.detail == "wrap":
            return Event({})
        if error.detail == "later":
            self.begun.append(position)
        else:
            self._settle(position)
        return None

    def _handed(self, position: int) -> None:
        partition, offset = place(position)
        passed = [(o, k) for o, k in self.records[partition].items() if self.handed[partition] <= o < offset]
        skipped = [o for o, kind in passed if kind not in ("drop", "later") and o not in self.settled[partition]]
        assert not skipped, f"events were skipped: {skipped}"
        assert offset >= self.handed[partition], "handed out twice"
        self.handed[partition] = offset + 1

    def withdraw(self, source: int) -> list[int]:
        gone = [p for p in self.waiting if p >> PARTITION_BITS == source]
        self.waiting = [p for p in self.waiting if p not in gone]
        self._resume()
        return gone

    def _settle(self, position: int) -> None:
        partition, offset = place(position)
        self.settled[partition].add(offset)
        self.flow.settle(position)

    # -- what may happen ----------------------------------------------------------------------------------------------

    def fetch(self, n: int) -> None:
        ready = [p for p in self.read if p not in self.paused]
        if ready:
            partition = ready[n % len(ready)]
            offsets = [o for o in self.records[partition] if o >= self.read[partition]][: 1 + n % 7]
            if offsets:
                self.read[partition] = offsets[-1] + 1
                values = [self.records[partition][o].encode() for o in offsets]
                found = [Record(o, 0, None, value, []) for o, value in zip(offsets, values, strict=True)]
                self.flow.fetched(partition, found, max(self.records[partition]) + 1)

    def settle(self, n: int) -> None:
        if self.begun:
            self._settle(self.begun.pop(n % len(self.begun)))
        self._resume()

    def begin(self, n: int) -> None:
        if self.waiting:
            self.begun.append(self.waiting.pop(n % len(self.waiting)))

    def set_room(self, n: int) -> None:
        self.room = n
        self._resume()

    def settle_late(self, n: int) -> None:
        if self.late:
            self._settle(self.late.pop(n % len(self.late)))

    def fail(self, n: int) -> None:
        self.fails = n % 2 == 0

    def assign(self, partitions: list[Partition]) -> None:
        self.flow.assigned({p: self.committed[p] for p in partitions})
        for p in partitions:
            self.read[p] = self.handed[p] = self.committed[p]

    async def revoke(self, n: int) -> None:
        gone = PARTITIONS if n % 3 == 2 else [PARTITIONS[n % 3]]
        offsets = await self.flow.revoked(gone)
        assert set(offsets) <= set(gone)
        for partition, offset in offsets.items():
            self._commit(partition, offset)
        self._gone(gone)

    async def lose(self, n: int) -> None:
        gone = [PARTITIONS[n % 2]]
        self.flow.lost(gone)
        self._gone(gone)

    def _gone(self, partitions: list[Partition]) -> None:
        assert not [p for p in self.waiting if place(p)[0] in partitions]
        late = [p for p in self.begun if place(p)[0] in partitions]
        self.begun = [p for p in self.begun if p not in late]
        self.late += late
        for partition in partitions:
            del self.read[partition]
            self.paused.discard(partition)
        self.assign(partitions)

    async def run(self, steps: list[tuple[str, int]]) -> None:
        calls: dict[str, Callable[[int], Any]] = {
            "fetch": self.fetch,
            "settle": self.settle,
            "begin": self.begin,
            "room": self.set_room,
            "revoke": self.revoke,
            "lose": self.lose,
            "late": self.settle_late,
            "fail": self.fail,
        }
        async with anyio.create_task_group() as tasks:
            await self.flow.start(tasks)
            self.assign(PARTITIONS)
            for step, n in steps:
                done = calls[step](n)
                if done is not None:
                    await done
                for _ in range(n % 4):
                    await anyio.lowlevel.checkpoint()
            await self._finish()
            tasks.cancel_scope.cancel()

    async def _finish(self) -> None:
        self.fails = False
        self.set_room(1000)
        for _ in range(200):
            for n in range(2):
                self.fetch(n)
            while self.waiting:
                self.begin(0)
            while self.begun:
                self.settle(0)
        ends = {p: max(records) + 1 if records else 0 for p, records in self.records.items()}
        assert self.settled == {p: set(records) for p, records in self.records.items()}
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert self.committed == ends
        assert self.flow.lag() == 0


@pytest.mark.slow
@example(  # a wrapped record keeps its turn behind an event that found no room
    topic=[[(1, "event"), (1, "event"), (1, "wrap"), (1, "event")], []], ahead=6, steps=[("room", 1), ("fetch", 6)]
)
@example(  # what was settled ahead, when the partition was ours before, is not handed out again
    topic=[[], [(2, "event"), (1, "event"), (1, "event")]],
    ahead=2,
    steps=[("fetch", 1), ("begin", 1), ("settle", 0), ("revoke", 1)],
)
@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(topic=TOPICS, ahead=st.integers(2, 20), steps=st.lists(STEPS, max_size=60))
def test_nothing_is_skipped_handed_out_twice_or_committed_early(
    monkeypatch: pytest.MonkeyPatch, topic: list[list[tuple[int, str]]], ahead: int, steps: list[tuple[str, int]]
) -> None:
    monkeypatch.setattr(flows, "MAX_AHEAD", ahead)
    anyio.run(World(topic).run, steps)
