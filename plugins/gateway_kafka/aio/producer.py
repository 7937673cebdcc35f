"""The producer on aiokafka.

aiokafka's own `send` makes a coroutine and a future for each record. Here a record is an entry in its partition's
queue; the queues of all partitions that one broker leads are sent together when that broker has answered the request
before, so the busier it is the larger the batches. One batch of a partition is under way at most.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from functools import partial

import anyio
from aiokafka import errors
from aiokafka.structs import TopicPartition
from anyio.abc import TaskGroup

from ..client import Acknowledged, Headers, KafkaFault, size_of
from ..config import KafkaProducerConfig
from ..health import Health
from .board import Board
from .faults import fault_of, quieten
from .gather import Batch, Entry, Lane, Queue, Topic
from .link import Client, Link
from .upkeep import Upkeep

_log = logging.getLogger("tidegate.kafka")
_START_S = 5.0  # how long a start waits for the cluster
_STOP_S = 0.005
_UNKNOWN_TRIES = 3  # of a single record, where the cluster's reason is one that aiokafka does not know
_HOLD_S = (0.1, 0.2, 0.5, 1.0)  # before a failed batch is sent again

# the cluster refuses a whole batch for one of its records
_ONE_OF_THEM = (
    errors.MessageSizeTooLargeError,
    errors.RecordListTooLargeError,
    errors.InvalidTimestampError,
    errors.CorruptRecordException,
    errors.UnknownError,  # also what aiokafka makes of INVALID_RECORD: a null key in a compacted topic
)


class AioProducer:
    """`client.Producer` on aiokafka.

    A record can be written twice where its batch was refused for lost sequence numbers after the cluster had it. A
    record whose time was over while it was under way may be written after all, before any later one of its
    partition; one that was not under way is never written.
    """

    def __init__(self, config: KafkaProducerConfig) -> None:
        self._config = config
        self._timeout = config.delivery_timeout_s
        self._health = Health("the Kafka producer")
        self._board = Board(config.linger_ms / 1000)
        self._topics = self._board.topics
        self._link = Link(config, self._health, lambda: list(self._topics), self._changed)
        self._upkeep = Upkeep(config, self._board, self._link, self._health, self._tell, self._end)
        self._bytes = self._records = 0  # not answered yet
        self._started = False
        self._scope = anyio.CancelScope()
        self._ended_all = anyio.Event()

    @property
    def fault(self) -> KafkaFault | None:
        return self._health.fault

    @property
    def waiting(self) -> tuple[int, int]:
        return self._records, self._bytes

    # -- from the outside ------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        quieten()
        self._started = True
        tasks.start_soon(self._run)
        with anyio.move_on_after(_START_S):
            await self._link.tried.wait()
        if (fault := self.fault) is not None and fault.credentials:
            await self._close()
            raise fault

    async def stop(self) -> None:
        if not self._started:
            return
        try:
            while self._board.waits():  # noqa: ASYNC110 rare; no event per record
                await anyio.sleep(_STOP_S)
        finally:
            with anyio.CancelScope(shield=True):
                await self._close()

    def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, done: Acknowledged) -> None:
        state = self._topics.get(topic)
        if state is None:
            state = self._new(topic)
        queue = state.sticky if key is None else state.places.get(key) or state.place(key)
        size = size_of(key, value, headers)
        self._bytes += size
        self._records += 1
        queue.entries.append((time.monotonic() + self._timeout, key, value, headers, done, size))
        if not queue.listed:
            self._board.begin(queue)

    # -- sending ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._link.run)
                tasks.start_soon(self._upkeep.sweep)
                tasks.start_soon(self._upkeep.watch)
                while True:
                    await self._board.wake.wait()
                    self._board.wake.clear()
                    for lane in list(self._board.lanes.values()):
                        if lane.open and lane.ready and (client := self._link.client) is not None:
                            await self._send_lane(lane, client)
        self._ended_all.set()

    async def _close(self) -> None:
        self._scope.cancel()
        await self._ended_all.wait()

    async def _send_lane(self, lane: Lane, client: Client) -> None:
        ready, lane.ready = lane.ready, []
        now = time.monotonic()
        for at, queue in enumerate(ready):
            if client.retired:
                lane.ready += ready[at:]
                return
            if queue.batch is not None:
                continue
            partition = TopicPartition(queue.topic.name, queue.number)
            if queue.held > now or client.cluster.leader_for_partition(partition) is None:
                lane.ready.append(queue)  # the sweep comes back to it
                continue
            await self._send_queue(queue, partition, client)

    async def _send_queue(self, queue: Queue, partition: TopicPartition, client: Client) -> None:
        builder, entries = self._filled(queue, client)
        if queue.topic.sticky is queue and len(queue.topic.queues) > 1:
            queue.topic.turn()
        if not entries:
            self._board.go_on(queue)
            return
        batch = queue.batch = Batch(queue, entries, client)
        lane = queue.lane
        if lane.open:
            lane.open = False
            lane.closed_at = time.monotonic()
        client.under_way += 1
        try:
            # neither waits: the partition is known, and nothing of it is under way
            sent = await client.producer.send_batch(builder, partition.topic, partition=partition.partition)
        except Exception as error:
            self._end(batch, error)
        else:
            sent.add_done_callback(partial(self._ended, batch))

    def _filled(self, queue: Queue, client: Client) -> tuple[object, list[Entry]]:
        """A batch of what waits first, and its records."""
        largest = self._config.max_record_bytes
        now = int(time.time() * 1000)
        while True:
            builder = client.producer.create_batch()
            append = builder.append
            entries = queue.entries
            if len(entries) > queue.most:
                entries = entries[: queue.most]
            count = 0
            bad: KafkaFault | None = None
            for _, key, value, headers, *_ in entries:
                try:
                    added = append(timestamp=now, key=key, value=value, headers=headers)
                except (TypeError, ValueError, AttributeError) as error:
                    bad = KafkaFault(f"the record can't be written: {error}", retry=False)
                    break
                if added is None:
                    break
                if added.size > largest:
                    bad = KafkaFault(
                        f"the record has {added.size} bytes, and {largest} at most are written (max_record_bytes)",
                        retry=False,
                    )
                    break
                count += 1
            if bad is None:
                taken = queue.entries[:count]
                del queue.entries[:count]
                return builder, taken
            self._tell([queue.entries.pop(count)], bad)

    # -- answers ---------------------------------------------------------------------------------------------------

    def _ended(self, batch: Batch, future: asyncio.Future[object]) -> None:
        self._end(batch, None if future.cancelled() else future.exception(), lost=future.cancelled())

    def _end(self, batch: Batch, error: BaseException | None, *, lost: bool = False) -> None:
        if batch.over:
            return
        batch.over = True
        queue, client = batch.queue, batch.client
        queue.batch = None
        client.under_way -= 1
        batch.lane.open = True
        if error is None and not lost:
            self._upkeep.answered = time.monotonic()
            if self._health.fault is not None:
                self._health.good()
            queue.wrote(len(batch.entries))
            self._link.ended(client)
            self._board.go_on(queue)
            self._tell(batch.entries[batch.answered :] if batch.answered else batch.entries, None)
        else:
            self._link.retire(client)
            self._failed(batch, error or errors.ProducerClosed())
        if self._board.busy:
            self._board.wake.set()

    def _failed(self, batch: Batch, error: BaseException) -> None:
        queue, entries = batch.queue, batch.entries
        rest = entries[batch.answered :]
        fault = fault_of(error, f"topic {queue.topic.name}")
        one_of_them = isinstance(error, _ONE_OF_THEM)
        if one_of_them and len(entries) > 1:
            queue.halve(len(entries), len(entries) * (100 if len(rest) > 2 else 1))
        elif not fault.retry or (one_of_them and queue.tries >= _UNKNOWN_TRIES):
            queue.tries = 0
            self._board.go_on(queue)
            self._tell(rest, fault)
            return
        else:
            queue.held = time.monotonic() + _HOLD_S[min(queue.tries, len(_HOLD_S) - 1)]
            queue.tries += 1
            _log.warning("%s; %d records are sent again", fault, len(rest))
        queue.entries[:0] = rest
        self._board.go_on(queue)

    def _tell(self, entries: Iterable[Entry], fault: KafkaFault | None) -> None:
        for entry in entries:
            self._bytes -= entry[5]
            self._records -= 1
            try:
                entry[4](fault)
            except Exception:
                _log.exception("what waited for a record failed")

    # -- the client ------------------------------------------------------------------------------------------------

    def _new(self, name: str) -> Topic:
        topic = self._board.topics[name] = Topic(name, self._board.nowhere)
        if (client := self._link.client) is not None:
            client.producer.client.add_topic(name)
        return topic

    def _changed(self) -> None:
        """The client is another one, or has learned about the cluster."""
        if (client := self._link.client) is not None:
            self._board.learn(client.cluster)
