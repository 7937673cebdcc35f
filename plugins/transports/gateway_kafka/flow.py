"""Hands a consumer's records to an event handler, and commits what is settled.

The path of a record: `fetched` puts it into the queue of its partition; `_pump` decodes it and hands it to the handler
while there is room; the handler calls `settle` with the event's position once it is done; a timer commits, for each
partition, the offset before which everything is settled. A partition without room is paused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup
from gateway_transport.tasks import run

from gateway_core.contract.capabilities import DeliveryState
from gateway_core.contract.clock import Clock
from gateway_core.contract.component_errors import text_of_error
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import PARTITION_BITS, Event
from gateway_core.contract.shortage import may_pass

from .assigned_partition import AssignedPartition, Leaving
from .client import Consumer, KafkaFault, Partition, Record
from .tracker import Tracker

log = logging.getLogger("tidegate.kafka")

MAX_AHEAD = 20_000
"""The most records of a partition that may be in progress after an unsettled one."""
POLL_S = 0.01
RETRY_S = 1.0
MOST_AGAIN = 60
"""How often a record that can't be read for lack of memory is tried again, before it counts as no event."""
LONG_S = 5.0
"""A group rebalances faster, unless a member of it is gone or busy."""
LAST_S = 5.0
"""How long a cancelled stop may take to commit and to leave the group."""
RENEWED = 1 << 14
"""Partitions of topics that were recreated have numbers from here on. Others have smaller ones."""
_OFFSET_MASK = (1 << PARTITION_BITS) - 1


class EventHandler(Protocol):
    """Takes events. For each one that is taken, `Flow.settle(position)` follows."""

    def take(self, events: Sequence[Event]) -> int:
        """Takes the first events, in order, and returns how many. The others are offered again in the same order after
        `Flow.resume()`."""

    def refuse(self, record: Record, partition: Partition, position: int, error: Refused) -> Event | None:
        """Handles a record that is not an event. Returns an event to take in its place; or None, and
        `Flow.settle(position)` follows."""

    def withdraw(self, partition_id: int) -> Sequence[int]:
        """Drops the events of this partition that are not in flight; returns their positions."""


class Flow:
    """The member that receives the partitions and records of a consumer (`client.Member`)."""

    def __init__(
        self,
        handler: EventHandler,
        decode: Callable[[Record], Event],
        clock: Clock,
        *,
        commit_interval_s: float,
        drain_s: float,
        partition_id_of: Callable[[Partition], int],
        chunk: int,
        session_s: float = 30.0,
    ) -> None:
        self.consumer: Consumer  # set by the owner, which needs this object to create it
        self.joined = anyio.Event()
        self._handler = handler
        self._decode = decode
        self._clock = clock
        self._interval_s = commit_interval_s
        self._drain_s = drain_s
        self._lane_of = partition_id_of
        self._chunk = chunk
        self._session_s = session_s
        self._waits_since: float | None = clock.monotonic()  # without partitions, and the group has assigned none yet
        self._by_id: dict[int, AssignedPartition] = {}
        self._partitions: dict[Partition, AssignedPartition] = {}
        self._topic_ids: dict[Partition, str] = {}
        self.begins: dict[Partition, int] = {}
        """Where the group began, in partitions of which that is known."""
        self._renewed: dict[Partition, int] = {}  # the numbers of partitions whose topic was recreated
        self._renewals = 0
        self.released: dict[Partition, tuple[int, frozenset[int]]] = {}
        """The offsets that were settled at or after the last safe one, for partitions that were revoked since the last
        assignment. A flow that replaces this one may take them over."""
        self._commit_fails = False
        self._turn = 0
        self._closed = self._hurried = False
        self.slack = 0
        """How many records of a partition may wait for room before it is paused, for a handler that frees room quickly.
        """

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        """Starts the consumer and the commits. Raises `KafkaFault` like the consumer."""
        await self.consumer.start(tasks)
        tasks.start_soon(run, self._commits)

    async def stop(self) -> None:
        """Stops handing out events, waits briefly for those in flight, commits, and leaves the group. When cancelled,
        it stops waiting but still commits."""
        self._closed = True
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope(shield=True) as stopping:
                tasks.start_soon(run, self._hurry, stopping)
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
            if not (due := self.due()):
                continue
            try:
                await self.consumer.commit({p.name: offset for p, offset in due})
            except KafkaFault as e:
                if not self._commit_fails:
                    log.warning("can't commit offsets, will retry: %s", e)
                self._commit_fails = True
                continue
            self._commit_fails = False
            self.committed(due)

    def due(self) -> list[tuple[AssignedPartition, int]]:
        """The offsets to commit now."""
        return [(p, p.tracker.safe) for p in self._partitions.values() if p.tracker.safe != p.committed]

    def committed(self, done: Sequence[tuple[AssignedPartition, int]]) -> None:
        """These are committed, as far as the consumer knows. A partition that was assigned again meanwhile is another
        one here: its old offset was refused, or, if a client repeated the commit late, has overwritten the new one."""
        for p, offset in done:
            p.committed = offset
            if (now := self._partitions.get(p.name, p)) is not p:
                now.committed = -1

    # -- from the consumer ------------------------------------------------------------------------------------------

    def assigned(self, partitions: Mapping[Partition, int], ids: Mapping[str, str] = MappingProxyType({})) -> None:
        """See `client.Member`."""
        for name, offset in partitions.items():
            id = ids.get(name[0]) or self._topic_ids.get(name, "")
            if self._topic_ids.get(name, id) not in ("", id):
                self._renew(name)
            self._topic_ids[name] = id
            if offset < self.begins.get(name, 0):  # it was moved back
                del self.begins[name]
            assigned = AssignedPartition(name, self._renewed.get(name) or self._lane_of(name), offset)
            self._partitions[name] = self._by_id[assigned.partition_id] = assigned
            safe, settled = self.released.get(name, (-1, frozenset()))
            if safe == offset > 0:  # no other member has made progress (offset 0 may belong to a recreated topic)
                assigned.settled = settled
        self.released.clear()
        self._waits_since = None
        self.joined.set()

    async def revoked(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """See `client.Member`: drops what has not begun, and waits briefly for what has."""
        leaving = self.leave(partitions)
        with anyio.move_on_after(self._drain_s):
            while not self._hurried and leaving.in_flight:  # noqa: ASYNC110 rare; no event per record
                await anyio.sleep(POLL_S)
        return self.left(leaving)

    def leave(self, partitions: Iterable[Partition]) -> Leaving:
        """The first half of `revoked`: drops what has not begun."""
        leaving = [self._partitions.pop(name) for name in partitions if name in self._partitions]
        self._await_group()
        return Leaving([(p, p.tracker.open - self._drop(p)) for p in leaving])

    def left(self, leaving: Leaving) -> Mapping[Partition, int]:
        """The second half: forgets the partitions, and returns the offsets to commit."""
        for p, _ in leaving.partitions:
            self._forget(p)
        # includes what may have been committed already: a commit in flight may fail, which would not be reported
        return {p.name: p.tracker.safe for p, _ in leaving.partitions if p.tracker.safe != p.start}

    def lost(self, partitions: Iterable[Partition]) -> None:
        """See `client.Member`."""
        for p in [self._partitions.pop(name) for name in partitions if name in self._partitions]:
            self._drop(p)
            self._forget(p)
        self._await_group()

    def _await_group(self) -> None:
        """The partitions that are left may be none: until the group has rebalanced, nobody has them."""
        if not self._partitions and self._waits_since is None:
            self._waits_since = self._clock.monotonic()

    def _drop(self, p: AssignedPartition) -> set[int]:
        """Stops handing out; returns the offsets that will never be settled."""
        p.queue.clear()
        waiting = [event.position for event in p.events]
        p.events.clear()
        return {(position & _OFFSET_MASK) - 1 for position in (*waiting, *self._handler.withdraw(p.partition_id))}

    def _forget(self, p: AssignedPartition) -> None:
        self.released[p.name] = p.tracker.safe, p.tracker.settled_ahead()
        if self._by_id.get(p.partition_id) is p:
            del self._by_id[p.partition_id]

    def fetched(self, partition: Partition, records: Sequence[Record], end: int) -> None:
        """See `client.Member`."""
        p = self._partitions.get(partition)
        if p is None or self._closed:
            return
        if records and records[0].offset < p.expected:
            self._restart(p, records[0].offset)
        p.end = end
        p.queue.extend(records)
        self._pump(p)

    def passed(self, partition: Partition, offset: int) -> None:
        """See `client.Member`."""
        p = self._partitions.get(partition)
        # once closed, `fetched` keeps nothing, so the consumer may be past records that were dropped
        if p is not None and not self._closed and offset > p.expected:
            p.passed = offset
            if not p.queue:
                p.tracker.skip_to(offset)

    def _restart(self, p: AssignedPartition, offset: int) -> None:
        """The partition went back (its topic was recreated or truncated): the records in progress no longer exist."""
        self._drop(p)
        del self._by_id[p.partition_id]
        p.partition_id = self._renew(p.name)
        self._by_id[p.partition_id] = p
        p.settled = frozenset()
        p.tracker = Tracker(offset)
        p.own = offset
        p.passed = offset

    def _renew(self, name: Partition) -> int:
        """A number for a partition whose records are others now. What is in flight of the deleted topic must not settle
        a record that has the same offset in the new one."""
        self.released.pop(name, None)
        self.begins.pop(name, None)
        self._renewals += 1
        self._renewed[name] = RENEWED + self._renewals % RENEWED
        return self._renewed[name]

    # -- to the handler ---------------------------------------------------------------------------------------------

    def _pump(self, p: AssignedPartition) -> None:
        """Hands out events while there is room."""
        if p.pumping or self._closed:  # the handler may settle events during `take`, which makes room
            return
        p.pumping = True
        try:
            while self._next(p):
                try:
                    taken = self._handler.take(p.events)
                except Exception:
                    log.exception("events of %s-%d were not taken and will be offered again", *p.name)
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

    def _next(self, p: AssignedPartition) -> bool:
        """Decodes the next events; False if there is none to hand out, or too many are unsettled."""
        tracker, events = p.tracker, p.events
        while p.queue and len(events) < self._chunk and tracker.ahead < MAX_AHEAD:
            record = p.queue.popleft()
            position = p.position(record.offset)
            if p.settled and record.offset in p.settled:
                tracker.begin(record.offset)
                tracker.settle(record.offset)
                continue
            event: Event | None = None
            refused: Refused | None = None
            try:
                event = self._decode(record)
            except Exception as e:
                if self._again(p, record, e):
                    break
                refused = _unreadable(e)
            p.short = 0
            tracker.begin(record.offset)
            if refused is not None:
                event = self._refused(record, p, position, refused)
            if event is None:
                continue
            event.position = position
            events.append(event)
        return bool(events)

    def _again(self, p: AssignedPartition, record: Record, error: Exception) -> bool:
        """Whether the record is read again soon: this machine is short of memory, so nobody knows what it is."""
        if p.short == MOST_AGAIN or not may_pass(error):
            return False
        p.short += 1
        p.queue.appendleft(record)
        log.warning("record %d of %s-%d can't be read now: %s", record.offset, *p.name, text_of_error(error))
        self._clock.call_later(RETRY_S, self.resume)
        return True

    def _refused(self, record: Record, p: AssignedPartition, position: int, error: Refused) -> Event | None:
        try:
            return self._handler.refuse(record, p.name, position, error)
        except Exception:  # it stays unsettled, so no later offset is committed
            log.exception("record %d of %s-%d is not an event, and handling it failed", record.offset, *p.name)
            return None

    def settle(self, position: int) -> None:
        """The event at this position has been processed."""
        p = self._by_id.get(position >> PARTITION_BITS)
        if p is None:
            return
        p.tracker.settle((position & _OFFSET_MASK) - 1)
        if p.queue and not p.events and p.tracker.ahead < MAX_AHEAD // 2:
            self._pump(p)

    def resume(self) -> None:
        """There is room again."""
        waiting = [p for p in self._partitions.values() if p.events or p.queue]
        self._turn += 1
        first = self._turn % (len(waiting) or 1)  # not always the same one
        for p in (*waiting[first:], *waiting[:first]):
            self._pump(p)

    def name_of(self, partition_id: int) -> Partition:
        """The partition of events whose positions have this number."""
        return self._by_id[partition_id].name

    def delivery_state(self, position: int) -> DeliveryState | None:
        """See `gateway_core.contract.capabilities.TracksDeliveries`."""
        number = position >> PARTITION_BITS  # as the topic has it
        p = next((p for p in self._partitions.values() if self._lane_of(p.name) == number), None)
        if p is None:
            return None
        offset = (position & _OFFSET_MASK) - 1
        if offset >= p.tracker.next:
            return "unread"
        if offset in p.tracker.open:
            return "pending"
        if offset < self.begins.get(p.name, 0):
            return "before"
        return "passed" if offset >= p.own and offset not in p.settled else "settled"

    # -- for status -------------------------------------------------------------------------------------------------

    @property
    def fault(self) -> str | None:
        """Why nothing is read; None while all is well, also while the group rebalances as it should."""
        if (fault := self.consumer.fault) is not None:
            return str(fault)
        if self._waits_since is None or self._clock.monotonic() - self._waits_since < LONG_S:
            return None
        return (
            "it waits for its consumer group: a member that ended without a word keeps its partitions until its session"
            f" ends, up to {self._session_s:g} s, or one still gives up its own"
        )

    def lag(self) -> int | None:
        """The number of unsettled records in our partitions; None while the group has not said which are ours."""
        if self._waits_since is not None:
            return None
        return sum(max(0, p.end - p.tracker.safe) for p in self._partitions.values())

    def info(self) -> dict[str, Any]:
        """`partitions` maps topic and number to the offset before which everything is settled, and the last known
        end."""
        return {
            "error": self.fault,
            "lag": self.lag(),
            "partitions": {f"{t}-{n}": [p.tracker.safe, p.end] for (t, n), p in sorted(self._partitions.items())},
        }


def _unreadable(error: Exception) -> Refused:
    """A record that can't be read; who handles it may ask for the cause."""
    if isinstance(error, Refused):
        return error
    refused = Refused(f"the record can't be read: {text_of_error(error)}")
    refused.__cause__ = error
    return refused
