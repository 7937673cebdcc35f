"""The consumer on aiokafka.

aiokafka rebalances eagerly: every change in the group revokes all partitions of all members and assigns them again (its
sticky assignor gives most of them back to the same members). It has no cooperative protocol, so members on aiokafka and
on confluent-kafka can't share a group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import anyio
from aiokafka import errors
from aiokafka.structs import TopicPartition
from anyio.abc import TaskGroup

from gateway_core.contract.clock import Clock
from gateway_core.contract.component_errors import text_of_error

from ..client import Begins, KafkaFault, Member, Partition, Record
from ..client_config import KafkaConfig
from ..health import Health
from .commits import commit
from .faults import fault_of, quieten
from .rebalances import RebalanceListener
from .session import close, connected
from .start_offsets import StartOffsets, first_offsets, reset_to_beginning
from .topic_ids import TopicIds
from .watch import CHECK_S, LOOK_S, Watch
from .ways import ways

_log = logging.getLogger("tidegate.kafka")
_START_S = 5.0  # how long a start waits for the cluster
_FIRST_WAIT_S = 0.25
_MAX_WAIT_S = 5.0
_POLL_MS = 1000
_PASSED_S = 0.25
_NOTHING = TopicPartition("", -1)

_NOT_ALLOWED = (errors.TopicAuthorizationFailedError, errors.GroupAuthorizationFailedError)


class AioConsumer:
    """`client.Consumer` on aiokafka. A partition that was revoked and is assigned again is no longer paused."""

    def __init__(
        self,
        config: KafkaConfig,
        *,
        group: str,
        topics: Sequence[str],
        member: Member,
        max_poll_records: int,
        session_timeout_s: float,
        clock: Clock,
        begins: Begins,
    ) -> None:
        self._config = config
        self._group = group
        self._topics = list(topics)
        self._member = member
        self._most = max_poll_records
        self._session_s = session_timeout_s
        self._clock = clock
        self._begins = begins
        self._health = Health(f"consumer group {group}")
        self._consumer: Any = None
        self._fresh: set[TopicPartition] | None = None  # assigned by the cluster, not yet passed to the member
        self._ours: set[Partition] = set()
        self._ids: dict[str, str] = {}  # of the topics of these partitions
        self._known = TopicIds()
        self._paused: set[Partition] = set()
        self._held: dict[Partition, tuple[list[Record], int]] = {}  # fetched while the partition was being paused
        self._letting_go = anyio.Lock()
        self._poll: asyncio.Task[Any] | None = None
        self._interrupted = False
        self._wait = _FIRST_WAIT_S
        self._heard = self._passed_at = 0.0
        self._lost: KafkaFault | None = None
        self._tried = anyio.Event()
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._started = False
        self._leaving = False

    @property
    def fault(self) -> KafkaFault | None:
        return self._health.fault or self._health.absent

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        quieten()
        self._started = True
        tasks.start_soon(self._run)
        with anyio.move_on_after(_START_S):
            await self._tried.wait()
        if (fault := self.fault) is not None and fault.credentials:
            self._scope.cancel()
            await self._ended.wait()
            raise fault

    async def stop(self) -> None:
        if not self._started:
            return
        self._leaving = True
        self._scope.cancel()
        await self._ended.wait()
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        try:
            await self._let_go(consumer)
        finally:
            await close(consumer)

    async def _run(self) -> None:
        try:
            await self._working()
        finally:
            self._ended.set()

    async def _working(self) -> None:
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._kept, self._watching)
                tasks.start_soon(self._kept, self._watching_topics)
                while True:
                    try:
                        await self._join()
                        await self._polling(self._consumer)
                    except (KafkaFault, errors.KafkaError, OSError) as error:
                        self._health.bad(fault_of(error))
                        self._tried.set()
                    except Exception as error:  # from aiokafka: it must not end the gateway
                        _log.exception("consumer group %s: unexpected error; restarting the consumer", self._group)
                        self._health.bad(KafkaFault(f"consumer group {self._group}: {type(error).__name__}: {error}"))
                        self._tried.set()
                    finally:
                        if not self._leaving:
                            with anyio.CancelScope(shield=True):
                                await self._drop()
                    await anyio.sleep(self._wait)
                    self._wait = min(2 * self._wait, _MAX_WAIT_S)

    async def _join(self) -> None:
        self._consumer, self._known = await connected(self._config, self._group, self._session_s)
        self._consumer.subscribe(self._topics, listener=RebalanceListener(self, self._consumer))
        self._heard = self._clock.monotonic()
        self._health.good()
        self._tried.set()

    async def _drop(self) -> None:
        """Closes the connection so that a new one can replace it."""
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        self._fresh = None
        if ours := self._forget():
            self._member.lost(ours)
        try:
            await close(consumer)
        except Exception as error:  # it is gone either way, and another one replaces it
            _log.warning("consumer group %s: can't close a connection in order: %s", self._group, text_of_error(error))

    def _forget(self) -> list[Partition]:
        ours, self._ours = list(self._ours), set()
        self._paused.clear()
        self._held.clear()
        return ours

    # -- rebalances ------------------------------------------------------------------------------------------------

    def on_assigned(self, consumer: Any, partitions: Iterable[TopicPartition]) -> None:
        """The cluster assigned these partitions to us."""
        if consumer is self._consumer:
            self._fresh = set(partitions)
            self._interrupt()

    async def on_revoked(self, consumer: Any) -> None:
        """The cluster revokes all partitions."""
        if consumer is self._consumer or self._leaving:
            await self._let_go(consumer)

    async def _let_go(self, consumer: Any) -> None:
        async with self._letting_go:
            self._fresh = None
            ours = self._forget()
            if not ours:
                return
            offsets = await self._member.revoked(ours)
            try:
                await commit(consumer, offsets, self._ids, self._begins, self._group, self._config.request_timeout_s)
            except KafkaFault as fault:
                _log.warning("consumer group %s: can't commit the last offsets: %s", self._group, fault)

    async def _adopt(self, consumer: Any) -> None:
        """Looks up the start offsets and passes the assignment to the member."""
        fresh = self._fresh
        assert fresh is not None
        starts: StartOffsets = await first_offsets(consumer, fresh)
        if self._fresh is not fresh:
            return  # revoked meanwhile
        self._fresh = None
        for partition, offset in starts.sought.items():
            consumer.seek(partition, offset)
        self._wait = _FIRST_WAIT_S
        for text in starts.gaps:
            _log.error("consumer group %s: %s", self._group, text)
        self._ours = {(p.topic, p.partition) for p in fresh}
        self._ids = starts.ids
        self._health.good()
        self._member.assigned({(p.topic, p.partition): offset for p, offset in starts.offsets.items()}, starts.ids)

    # -- reading ---------------------------------------------------------------------------------------------------

    def pause(self, partition: Partition) -> None:
        if partition in self._ours and partition not in self._paused:
            self._paused.add(partition)

    def resume(self, partition: Partition) -> None:
        if partition in self._paused:
            self._paused.discard(partition)
            self._interrupt()

    def _interrupt(self) -> None:
        """Cancels the poll in progress, which does not cover newly readable partitions. Nothing is lost: aiokafka
        removes records from its buffers only when it returns them."""
        self._interrupted = True
        if self._poll is not None:
            self._poll.cancel()

    async def _polling(self, consumer: Any) -> None:
        while True:
            if (lost := self._lost) is not None:
                self._lost = None
                raise lost
            try:
                if self._fresh is not None:
                    await self._adopt(consumer)
                self._deliver_held()
                await self._poll_once(consumer)
            except errors.OffsetOutOfRangeError as error:
                for partition, offset in error.args[0].items():
                    _log.error(
                        "consumer group %s: %s", self._group, await reset_to_beginning(consumer, partition, offset)
                    )
            except errors.NoOffsetForPartitionError as error:
                await reset_to_beginning(consumer, error.args[0], None)
            except _NOT_ALLOWED as error:
                self._health.bad(fault_of(error, f"group {self._group}, topics {', '.join(self._topics)}"))
                await anyio.sleep(1)

    async def _poll_once(self, consumer: Any) -> None:
        # leaves paused partitions out: pausing them in aiokafka would discard the records it has fetched
        wanted = [TopicPartition(*name) for name in self._ours if name not in self._paused]
        self._interrupted = False
        self._poll = asyncio.ensure_future(
            consumer.getmany(*(wanted or (_NOTHING,)), timeout_ms=_POLL_MS, max_records=self._most)
        )
        try:
            found = await self._poll
        except asyncio.CancelledError:
            if not self._interrupted:
                raise
            return
        finally:
            self._poll = None
        if found:
            self._heard = self._clock.monotonic()
            self._health.good()
        for partition, records in found.items():
            name = (partition.topic, partition.partition)
            if name in self._ours:
                self._deliver(name, [_record(r) for r in records], consumer.highwater(partition) or 0)
        if (now := self._clock.monotonic()) >= self._passed_at:
            self._passed_at = now + _PASSED_S
            await self._tell_passed(consumer)

    async def _tell_passed(self, consumer: Any) -> None:
        """Reports positions that lie after aborted records and transaction markers, which aiokafka does not return."""
        if self._fresh is not None:
            return
        for name in self._ours - self._held.keys():
            position = await ways().position(consumer, TopicPartition(*name))
            if position is not None and name in self._ours and self._fresh is None:
                self._member.passed(name, position)

    def _deliver(self, name: Partition, records: list[Record], end: int) -> None:
        if name in self._paused:
            kept, _ = self._held.get(name, ([], 0))
            self._held[name] = (kept + records, end)
        else:
            self._member.fetched(name, records, max(end, records[-1].offset + 1))

    def _deliver_held(self) -> None:
        for name in [name for name in self._held if name not in self._paused]:
            self._deliver(name, *self._held.pop(name))

    # -- commits ---------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        mine = {name: offset for name, offset in offsets.items() if name in self._ours}
        if mine and self._consumer is not None:  # else it was closed meanwhile, and the records are read again
            await commit(self._consumer, mine, self._ids, self._begins, self._group, self._config.request_timeout_s)

    async def _kept(self, watching: Callable[[], Awaitable[None]]) -> None:
        """Watches on after an unexpected error, which would end the consumer."""
        while True:
            try:
                await watching()
            except Exception:
                _log.exception("consumer group %s: unexpected error; watching on", self._group)
            await anyio.sleep(CHECK_S)

    async def _watching(self) -> None:
        watch = Watch(self._config, self._health)
        while True:
            await anyio.sleep(CHECK_S)
            consumer = self._consumer
            if consumer is None or self._clock.monotonic() - self._heard < CHECK_S:
                continue
            if not await watch.look(consumer, self._ours) and consumer is self._consumer:
                watch = Watch(self._config, self._health)
                self._lost = KafkaFault("no broker answers at its known address; reconnecting")
                self._interrupt()

    async def _watching_topics(self) -> None:
        """Detects recreated topics. A recreated topic has the same name, and its offsets often look valid: a consumer
        that continued at its old offset would skip the records before it."""
        while True:
            await anyio.sleep(LOOK_S)
            consumer = self._consumer
            if consumer is None:
                continue
            try:
                with anyio.fail_after(CHECK_S):
                    heard = await ways().topics(consumer, self._topics)
            except (errors.KafkaError, OSError):  # TimeoutError is an OSError
                continue  # the other watch finds the cause
            if consumer is not self._consumer:
                continue
            self._known.update(heard)
            self._health.missing(sorted(heard.missing))
            ways().expect_partitions(consumer, heard)
            if renewed := [topic for topic in heard.ids if self._known.is_gone(topic, self._ids.get(topic, ""))]:
                await self._let_go(consumer)
                if consumer is self._consumer:
                    self._lost = KafkaFault(
                        f"the topic {', '.join(renewed)} was deleted and recreated; reading the new one"
                    )
                    self._interrupt()
                self._ids = {}


def _record(found: Any) -> Record:
    return Record(found.offset, found.timestamp, found.key, found.value, found.headers)
