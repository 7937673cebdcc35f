"""The consumer on librdkafka, as the loop sees it."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping, Sequence

import anyio
from anyio.abc import TaskGroup

from gateway_core.clock import Clock

from ..client import KafkaFault, Member, Partition, Record
from ..config import KafkaConfig
from ..health import Health
from ..topics import Ids, watch_topics
from .places import Place
from .reader import Reader

_log = logging.getLogger("tidegate.kafka")
_START_S = 5.0  # how long a start waits for the cluster
_CLOSE_S = 10.0
_STANDS_S = 90.0  # of a thread that waits for librdkafka: much longer than any answer may take


class ConfluentConsumer:
    """`client.Consumer` on librdkafka, which rebalances cooperatively: only the partitions that go are revoked.

    librdkafka throws away what it has fetched of a partition when it is paused. So a partition that is paused for a
    moment only has its records kept here, and librdkafka is told when they become many.
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
    ) -> None:
        self._config = config
        self._group = group
        self._topics = topics
        self._member = member
        self._most = max_poll_records
        self._session_s = session_timeout_s
        self._health = Health(f"consumer group {group}")
        self._ours: dict[Partition, Place] = {}
        self._reader: Reader | None = None
        self._tried = anyio.Event()
        self._closing = anyio.CancelScope(shield=True)
        self._asked = 0  # times that the member is busy with letting go
        self._watched = anyio.CancelScope()

    @property
    def fault(self) -> KafkaFault | None:
        """What is wrong at the moment."""
        return self._health.fault or self._health.absent

    async def start(self, tasks: TaskGroup) -> None:
        self._loop = asyncio.get_running_loop()
        reader = self._reader = Reader(
            self._config, self._group, self._topics, self._most, self._session_s, self._health, self
        )
        tasks.start_soon(self._watching)
        with anyio.move_on_after(_START_S):
            await self._tried.wait()
        if reader.refusal is not None:
            await self.stop()
            raise reader.refusal

    async def stop(self) -> None:
        reader, self._reader = self._reader, None
        if reader is None:
            return
        reader.close()
        self._watched.cancel()
        with self._closing:
            self._count()
            await anyio.to_thread.run_sync(reader.join, abandon_on_cancel=True)
        if self._closing.cancelled_caught:
            _log.warning("consumer group %s: left without a word, for the cluster does not answer", self._group)

    def _count(self) -> None:
        """The member's own time does not count."""
        self._closing.deadline = math.inf if self._asked else anyio.current_time() + _CLOSE_S

    async def _watching(self) -> None:
        with self._watched:
            await watch_topics(self._config, self._topics, self._heard)

    def _heard(self, ids: Ids | None) -> None:
        """Tells the reader of topics that were made anew, and the outside of those that are not there, and of a reader
        that stands."""
        reader = self._reader
        if reader is None:
            return
        if ids is not None:
            reader.heard(ids)
            self._health.missing([topic for topic, id in ids.items() if id is None])
        silent = time.monotonic() - reader.turned
        if silent > _STANDS_S and not self._asked:
            self._health.bad(KafkaFault(f"librdkafka has not answered for {silent:.0f} s; restart the gateway"))

    # -- from the member -------------------------------------------------------------------------------------------

    def pause(self, partition: Partition) -> None:
        if (place := self._ours.get(partition)) is not None:
            place.paused = True

    def resume(self, partition: Partition) -> None:
        place = self._ours.get(partition)
        if place is None or not place.paused:
            return
        place.paused = False
        if place.stopped:
            place.stopped = False
            if self._reader is not None:
                self._reader.go(place)
        if place.held:
            self._loop.call_soon(self._release, place)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        mine = {name: offset for name, offset in offsets.items() if name in self._ours}
        if not mine or self._reader is None:
            return
        answer: asyncio.Future[KafkaFault | None] = self._loop.create_future()
        self._reader.commit(mine, lambda fault: None if answer.done() else answer.set_result(fault))
        try:
            with anyio.fail_after(self._config.request_timeout_s):
                fault = await answer
        except TimeoutError:
            raise KafkaFault(f"commit of group {self._group}: no answer in time") from None
        if fault is not None:
            raise fault

    # -- from the reader -------------------------------------------------------------------------------------------

    def tried(self) -> None:
        """The connection has been tried."""
        self._tried.set()

    def assigned(self, places: Sequence[tuple[Place, int]]) -> None:
        for place, _ in places:
            self._ours[place.name] = place
        self._member.assigned({place.name: offset for place, offset in places})

    async def revoked(self, places: Sequence[Place]) -> Mapping[Partition, int]:
        names = self._forget(places)
        self._asked += 1
        self._count()
        try:
            offsets = await self._member.revoked(names)
        finally:
            self._asked -= 1
            self._count()
        return {name: offset for name, offset in offsets.items() if name in names}

    def lost(self, places: Sequence[Place]) -> None:
        if names := self._forget(places):
            self._member.lost(names)

    def fetched(self, batch: Sequence[tuple[Place, list[Record], int]]) -> None:
        if self._reader is not None:
            self._reader.taken()
        for place, records, end in batch:
            if self._ours.get(place.name) is not place:
                continue
            if place.paused or place.held:
                self._hold(place, records, end)
            else:
                self._member.fetched(place.name, records, end)

    def passed(self, place: Place, offset: int) -> None:
        if self._ours.get(place.name) is not place:
            return
        if place.held:
            place.held.append(([], offset))
        else:
            self._member.passed(place.name, offset)

    def _hold(self, place: Place, records: list[Record], end: int) -> None:
        place.held.append((records, end))
        place.kept += len(records)
        if place.paused and not place.stopped and place.kept >= self._most and self._reader is not None:
            place.stopped = True
            self._reader.stop(place)

    def _release(self, place: Place) -> None:
        while place.held and not place.paused and self._ours.get(place.name) is place:
            records, end = place.held.popleft()
            place.kept -= len(records)
            if records:
                self._member.fetched(place.name, records, end)
            else:
                self._member.passed(place.name, end)

    def _forget(self, places: Sequence[Place]) -> set[Partition]:
        names = set()
        for place in places:
            if self._ours.get(place.name) is place:
                del self._ours[place.name]
                names.add(place.name)
        return names
