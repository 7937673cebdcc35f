"""The consumer on librdkafka: the event loop's side."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping, Sequence

import anyio
from anyio.abc import TaskGroup
from gateway_kafka.client import Begins, KafkaFault, Member, Partition, Record
from gateway_kafka.client_config import KafkaConfig
from gateway_kafka.health import Health
from gateway_kafka.topics import Ids, watch_topics

from gateway_core.contract.clock import Clock

from .assignment import Assignment
from .consumer_thread import ConsumerThread

_log = logging.getLogger("tidegate.kafka")
_START_S = 5.0  # how long a start waits for the cluster
_CLOSE_S = 10.0
_STANDS_S = 90.0  # the thread waits for librdkafka: much longer than any call may take


class ConfluentConsumer:
    """`client.Consumer` on librdkafka, which rebalances cooperatively: only the partitions that move are revoked.

    librdkafka discards the records it has fetched for a partition when it is paused. So the records of a partition that
    is paused briefly are kept here; librdkafka is only told to pause once there are many of them.
    """

    def __init__(
        self,
        config: KafkaConfig,
        *,
        group: str,
        topics: Sequence[str],
        member: Member,
        max_poll_records: int,
        session_timeout_s: float,
        clock: Clock,  # librdkafka keeps its own time
        begins: Begins,
    ) -> None:
        self._config = config
        self._group = group
        self._topics = topics
        self._member = member
        self._most = max_poll_records
        self._session_s = session_timeout_s
        self._begins = begins
        self._health = Health(f"consumer group {group}")
        self._ours: dict[Partition, Assignment] = {}
        self._worker: ConsumerThread | None = None
        self._tried = anyio.Event()
        self._closing = anyio.CancelScope(shield=True)
        self._asked = 0  # number of `revoked` calls in progress
        self._watched = anyio.CancelScope()

    @property
    def fault(self) -> KafkaFault | None:
        """The current fault."""
        return self._health.fault or self._health.absent

    async def start(self, tasks: TaskGroup) -> None:
        self._loop = asyncio.get_running_loop()
        thread = self._worker = ConsumerThread(
            self._config, self._group, self._topics, self._most, self._session_s, self._begins, self._health, self
        )
        tasks.start_soon(self._watching)
        with anyio.move_on_after(_START_S):
            await self._tried.wait()
        if thread.refusal is not None:
            await self.stop()
            raise thread.refusal

    async def stop(self) -> None:
        thread, self._worker = self._worker, None
        if thread is None:
            return
        thread.close()
        self._watched.cancel()
        with self._closing:
            self._count()
            await anyio.to_thread.run_sync(thread.join, abandon_on_cancel=True)
        if self._closing.cancelled_caught:
            _log.warning(
                "consumer group %s: closed without leaving the group: the cluster does not answer", self._group
            )

    def _count(self) -> None:
        """Time that the member takes does not count towards the limit."""
        self._closing.deadline = math.inf if self._asked else anyio.current_time() + _CLOSE_S

    async def _watching(self) -> None:
        with self._watched:
            await watch_topics(self._config, self._topics, self._heard)

    def _heard(self, ids: Ids | None) -> None:
        """Reports recreated topics to the thread, missing topics to the status, and a thread that hangs."""
        thread = self._worker
        if thread is None:
            return
        if ids is not None:
            thread.heard(ids)
            self._health.missing([topic for topic, id in ids.items() if id is None])
        silent = time.monotonic() - thread.turned
        if silent > _STANDS_S and not self._asked:
            self._health.bad(KafkaFault(f"librdkafka has not answered for {silent:.0f} s; restart the gateway"))

    # -- from the member -------------------------------------------------------------------------------------------

    def pause(self, partition: Partition) -> None:
        if (assignment := self._ours.get(partition)) is not None:
            assignment.paused = True

    def resume(self, partition: Partition) -> None:
        assignment = self._ours.get(partition)
        if assignment is None or not assignment.paused:
            return
        assignment.paused = False
        if assignment.stopped:
            assignment.stopped = False
            if self._worker is not None:
                self._worker.go(assignment)
        if assignment.held:
            self._loop.call_soon(self._release, assignment)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        mine = {name: offset for name, offset in offsets.items() if name in self._ours}
        if not mine or self._worker is None:
            return
        answer: asyncio.Future[KafkaFault | None] = self._loop.create_future()
        self._worker.commit(mine, lambda fault: None if answer.done() else answer.set_result(fault))
        try:
            with anyio.fail_after(self._config.request_timeout_s):
                fault = await answer
        except TimeoutError:
            raise KafkaFault(f"commit of group {self._group}: no answer in time") from None
        if fault is not None:
            raise fault

    # -- from the thread -------------------------------------------------------------------------------------------

    def tried(self) -> None:
        """The first connection attempt has ended."""
        self._tried.set()

    def assigned(self, assignments: Sequence[tuple[Assignment, int]]) -> None:
        for assignment, _ in assignments:
            self._ours[assignment.name] = assignment
        ids = {assignment.name[0]: assignment.id for assignment, _ in assignments}
        self._member.assigned({assignment.name: offset for assignment, offset in assignments}, ids)

    async def revoked(self, assignments: Sequence[Assignment]) -> Mapping[Partition, int]:
        names = self._forget(assignments)
        self._asked += 1
        self._count()
        try:
            offsets = await self._member.revoked(names)
        finally:
            self._asked -= 1
            self._count()
        return {name: offset for name, offset in offsets.items() if name in names}

    def lost(self, assignments: Sequence[Assignment]) -> None:
        if names := self._forget(assignments):
            self._member.lost(names)

    def fetched(self, batch: Sequence[tuple[Assignment, list[Record], int]]) -> None:
        if self._worker is not None:
            self._worker.taken()
        for assignment, records, end in batch:
            if self._ours.get(assignment.name) is not assignment:
                continue
            if assignment.paused or assignment.held:
                self._hold(assignment, records, end)
            else:
                self._member.fetched(assignment.name, records, end)

    def passed(self, assignment: Assignment, offset: int) -> None:
        if self._ours.get(assignment.name) is not assignment:
            return
        if assignment.held:
            assignment.held.append(([], offset))
        else:
            self._member.passed(assignment.name, offset)

    def _hold(self, assignment: Assignment, records: list[Record], end: int) -> None:
        assignment.held.append((records, end))
        assignment.kept += len(records)
        if assignment.paused and not assignment.stopped and assignment.kept >= self._most and self._worker is not None:
            assignment.stopped = True
            self._worker.stop(assignment)

    def _release(self, assignment: Assignment) -> None:
        while assignment.held and not assignment.paused and self._ours.get(assignment.name) is assignment:
            records, end = assignment.held.popleft()
            assignment.kept -= len(records)
            if records:
                self._member.fetched(assignment.name, records, end)
            else:
                self._member.passed(assignment.name, end)

    def _forget(self, assignments: Sequence[Assignment]) -> set[Partition]:
        names = set()
        for assignment in assignments:
            if self._ours.get(assignment.name) is assignment:
                del self._ours[assignment.name]
                names.add(assignment.name)
        return names
