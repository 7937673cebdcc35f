"""From a consumer's records to whoever takes the events, and back: what is settled is committed.

The way of a record: `fetched` puts it in its partition's queue; `_pump` decodes it and hands it to the taker while
there is room; the taker calls `settle` with the event's position once it is dealt with; a timer commits, for each
partition, the offset before which everything is settled. A partition whose events find no room is paused.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup

from gateway_core.clock import Clock
from gateway_core.errors import Refused
from gateway_core.event import PARTITION_BITS, Event

from .client import Consumer, KafkaFault, Partition, Record
from .tracker import Tracker

log = logging.getLogger("tidegate.kafka")

MOST_AHEAD = 20_000
"""Records of a partition that may be begun after one that is not settled yet."""
POLL_S = 0.01
RETRY_S = 1.0
LAST_S = 5.0
"""How long a stop that was cancelled may take to commit and to leave."""
_PLACES = (1 << PARTITION_BITS) - 1


class Taker(Protocol):
    """Takes events. For each one that is taken, `Flow.settle(position)` follows."""

    def take(self, events: Sequence[Event]) -> int:
        """Takes the first so many of these, in order, and says how many. The others are offered again, in the same
        order, after `Flow.resume()`."""

    def refuse(self, record: Record, partition: Partition, position: int, error: Refused) -> Event | None:
        """Deals with a record that holds no event. Returns an event to be taken in its place, in its turn; or None,
        and `Flow.settle(position)` follows."""

    def withdraw(self, lane: int) -> Sequence[int]:
        """Drops what is not under way of this lane's events; returns their positions."""


class Assigned:
    """One partition that is ours. `lane` stands for it in positions."""

    __slots__ = (
        "end",
        "events",
        "lane",
        "name",
        "passed",
        "paused",
        "pumping",
        "queue",
        "said",
        "settled",
        "start",
        "tracker",
    )

    def __init__(self, name: Partition, lane: int, start: int) -> None:
        self.name = name
        self.lane = lane
        self.tracker = Tracker(start)
        self.queue: deque[Record] = deque()
        self.events: list[Event] = []  # decoded and begun, waiting for room
        self.paused = False
        self.pumping = False
        self.start = self.said = start  # `said` is committed, as far as known
        self.settled: frozenset[int] = frozenset()  # when it was ours before
        self.end = self.passed = start  # before `passed` nothing more comes

    @property
    def expected(self) -> int:
        """The next record has this offset, or a later one."""
        return self.queue[-1].offset + 1 if self.queue else self.tracker.next

    def position(self, offset: int) -> int:
        return self.lane << PARTITION_BITS | offset + 1


class Flow:
    """The member that a consumer tells of its partitions and records (`client.Member`)."""

    def __init__(
        self,
        taker: Taker,
        decode: Callable[[Record], Event],
        clock: Clock,
        *,
        commit_interval_s: float,
        drain_s: float,
        lane_of: Callable[[Partition], int],
        chunk: int,
    ) -> None:
        self.consumer: Consumer  # set by the owner, which needs this object to make it
        self.joined = anyio.Event()
        self._taker = taker
        self._decode = decode
        self._clock = clock
        self._interval_s = commit_interval_s
        self._drain_s = drain_s
        self._lane_of = lane_of
        self._chunk = chunk
        self._lanes: dict[int, Assigned] = {}
        self._partitions: dict[Partition, Assigned] = {}
        self.gone: dict[Partition, tuple[int, frozenset[int]]] = {}
        """What was settled at or after the last safe offset, in the partitions that have gone since the last
        assignment. Another flow in this one's place may take it over."""
        self._commit_fails = False
        self._turn = 0
        self._closed = self._hurried = False
        self.slack = 0
        """Records of a partition that may wait for room before it is paused: for a taker that is soon done."""

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        """Starts the consumer and the commits. Raises `KafkaFault` as the consumer does."""
        await self.consumer.start(tasks)
        tasks.start_soon(self._commits)

    async def stop(self) -> None:
        """Hands out nothing more, waits a moment for what is under way, commits, and leaves the group. When cancelled
        it waits no longer, and commits all the same."""
        self._closed = True
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope(shield=True) as stopping:
                tasks.start_soon(self._hurry, stopping)
                await self.consumer.stop()
            tasks.cancel_scope.cancel()

    async def _hurry(self, stopping: anyio.CancelScope) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._hurried = True
            stopping.deadline = anyio.current_time() + LAST_S

    async def _commits(self) -> None:
        while not self._closed:
            await anyio.sleep(self._interval_s)
            offsets = {p.name: p.tracker.safe for p in self._partitions.values() if p.tracker.safe != p.said}
            if not offsets:
                continue
            try:
                await self.consumer.commit(offsets)
            except KafkaFault as e:
                if not self._commit_fails:
                    log.warning("offsets can't be committed (they will be, later): %s", e)
                self._commit_fails = True
                continue
            self._commit_fails = False
            self._committed(offsets)

    def _committed(self, offsets: Mapping[Partition, int]) -> None:
        for name, offset in offsets.items():
            if name in self._partitions:
                self._partitions[name].said = offset

    # -- from the consumer ------------------------------------------------------------------------------------------

    def assigned(self, partitions: Mapping[Partition, int]) -> None:
        """See `client.Member`."""
        for name, offset in partitions.items():
            assigned = Assigned(name, self._lane_of(name), offset)
            self._partitions[name] = self._lanes[assigned.lane] = assigned
            safe, settled = self.gone.get(name, (-1, frozenset()))
            if safe == offset > 0:  # nobody has got any further with it (0 may be that of a topic that was made anew)
                assigned.settled = settled
        self.gone.clear()
        self.joined.set()

    async def revoked(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See `client.Member`: drops what has not begun, and waits a moment for what has."""
        leaving = [self._partitions.pop(name) for name in partitions if name in self._partitions]
        begun = [(p.tracker.open, p.tracker.open - self._drop(p)) for p in leaving]
        with anyio.move_on_after(self._drain_s):
            while not self._hurried and any(left & open for open, left in begun):  # noqa: ASYNC110 rare; no event per record
                await anyio.sleep(POLL_S)
        for p in leaving:
            self._forget(p)
        # once more what may be committed: a commit under way may have come to nothing, which then is no fault
        return {p.name: p.tracker.safe for p in leaving if p.tracker.safe != p.start}

    def lost(self, partitions: Iterable[Partition]) -> None:
        """See `client.Member`."""
        for p in [self._partitions.pop(name) for name in partitions if name in self._partitions]:
            self._drop(p)
            self._forget(p)

    def _drop(self, p: Assigned) -> set[int]:
        """Stops handing out; returns the offsets that will never be settled."""
        p.queue.clear()
        waiting = [event.position for event in p.events]
        p.events.clear()
        return {(position & _PLACES) - 1 for position in (*waiting, *self._taker.withdraw(p.lane))}

    def _forget(self, p: Assigned) -> None:
        self.gone[p.name] = p.tracker.safe, p.tracker.settled_ahead()
        if self._lanes.get(p.lane) is p:
            del self._lanes[p.lane]

    def fetched(self, partition: Partition, records: Sequence[Record], end: int) -> None:
        """See `client.Member`."""
        p = self._partitions.get(partition)
        if p is None or self._closed:
            return
        if records and records[0].offset < p.expected:
            self._begin_anew(p, records[0].offset)
        p.end = end
        p.queue.extend(records)
        self._pump(p)

    def passed(self, partition: Partition, offset: int) -> None:
        """See `client.Member`."""
        p = self._partitions.get(partition)
        if p is not None and offset > p.expected:
            p.passed = offset
            if not p.queue:
                p.tracker.skip_to(offset)

    def _begin_anew(self, p: Assigned, offset: int) -> None:
        """The partition goes back (its topic was made anew, or cut off): what it held before is no longer there."""
        self._drop(p)
        p.settled = frozenset()
        p.tracker = Tracker(offset)
        p.passed = offset

    # -- to the taker -----------------------------------------------------------------------------------------------

    def _pump(self, p: Assigned) -> None:
        """Hands out what there is, while there is room."""
        if p.pumping or self._closed:  # the taker may settle, and so make room, while it takes
            return
        p.pumping = True
        try:
            while self._next(p):
                try:
                    taken = self._taker.take(p.events)
                except Exception:
                    log.exception("events of %s-%d were not taken, and will be offered again", *p.name)
                    self._clock.call_later(RETRY_S, self.resume)
                    break
                del p.events[:taken]
                if p.events:
                    break
        finally:
            p.pumping = False
        if not p.queue:
            p.tracker.skip_to(p.passed)
        full = len(p.events) + len(p.queue) > self.slack
        if full != p.paused and self._partitions.get(p.name) is p:
            p.paused = full
            (self.consumer.pause if full else self.consumer.resume)(p.name)

    def _next(self, p: Assigned) -> bool:
        """Decodes the next events; False where there is none to hand out, or too much is open."""
        tracker, events = p.tracker, p.events
        while p.queue and len(events) < self._chunk and tracker.ahead < MOST_AHEAD:
            record = p.queue.popleft()
            position = p.position(record.offset)
            tracker.begin(record.offset)
            if p.settled and record.offset in p.settled:
                tracker.settle(record.offset)
                continue
            try:
                event = self._decode(record)
            except Refused as e:
                instead = self._refused(record, p, position, e)
                if instead is None:
                    continue
                event = instead
            event.position = position
            events.append(event)
        return bool(events)

    def _refused(self, record: Record, p: Assigned, position: int, error: Refused) -> Event | None:
        try:
            return self._taker.refuse(record, p.name, position, error)
        except Exception:  # it is not settled: no offset behind it is committed
            log.exception("record %d of %s-%d holds no event, and can't be put away either", record.offset, *p.name)
            return None

    def settle(self, position: int) -> None:
        """The event at this position is dealt with."""
        p = self._lanes.get(position >> PARTITION_BITS)
        if p is None:
            return
        p.tracker.settle((position & _PLACES) - 1)
        if p.queue and not p.events and p.tracker.ahead < MOST_AHEAD // 2:
            self._pump(p)

    def resume(self) -> None:
        """There is room again."""
        waiting = [p for p in self._partitions.values() if p.events or p.queue]
        self._turn += 1
        first = self._turn % (len(waiting) or 1)  # not always the same one
        for p in (*waiting[first:], *waiting[:first]):
            self._pump(p)

    # -- for status -------------------------------------------------------------------------------------------------

    def lag(self) -> int:
        """Records of our partitions that are not settled."""
        return sum(max(0, p.end - p.tracker.safe) for p in self._partitions.values())

    def info(self) -> dict[str, Any]:
        """`partitions` by topic and number: the offset before which all is settled, and the end as last seen."""
        fault = self.consumer.fault
        return {
            "error": str(fault) if fault else None,
            "lag": self.lag(),
            "partitions": {f"{t}-{n}": [p.tracker.safe, p.end] for (t, n), p in sorted(self._partitions.items())},
        }
