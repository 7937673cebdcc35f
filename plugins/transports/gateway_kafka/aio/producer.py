"""The producer on aiokafka.

aiokafka's own `send` creates a coroutine and a future for each record. Here a record is an entry in the queue of its
partition. The queues of all partitions that one broker leads are sent together once that broker has answered the
previous request, so batches grow with the load. At most one batch of a partition is in flight.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import anyio
from aiokafka import errors
from aiokafka.structs import TopicPartition
from anyio.abc import TaskGroup
from gateway_transport.tasks import run

from ..client import Acknowledged, Headers, KafkaFault
from ..client_config import KafkaProducerConfig
from ..health import Health
from ..records import size_of
from .batch_scheduler import Batch, BatchScheduler, BrokerState, Entry, PartitionQueue, TopicQueues
from .faults import fault_of, quieten
from .maintenance import ProducerMaintenance
from .needs import Outgoing
from .producer_connection import ProducerClient, ProducerConnection

_log = logging.getLogger("tidegate.kafka")
_START_S = 5.0  # how long a start waits for the cluster
_STOP_S = 0.005
_FEW = 256  # records under way; with more, aiokafka's detours are cheaper, as they gather larger batches
_UNKNOWN_TRIES = 3  # for a single record that the cluster rejects for a reason unknown to aiokafka
_RETRY_DELAYS_S = (0.1, 0.2, 0.5, 1.0)  # before a failed batch is sent again

# the cluster rejects a whole batch because of one record
_ONE_OF_THEM = (
    errors.MessageSizeTooLargeError,
    errors.RecordListTooLargeError,
    errors.InvalidTimestampError,
    errors.CorruptRecordException,
    errors.UnknownError,  # aiokafka also maps INVALID_RECORD to it: a null key in a compacted topic
)


class AioProducer:
    """`client.Producer` on aiokafka.

    A record can be written twice if the cluster stored its batch but then rejected it for lost sequence numbers. A
    record that timed out while it was in flight may still be written, before any later record of its partition; one
    that was not in flight is never written.
    """

    def __init__(self, config: KafkaProducerConfig) -> None:
        self._config = config
        self._timeout = config.delivery_timeout_s
        self._health = Health("the Kafka producer")
        self._scheduler = BatchScheduler(config.linger_ms / 1000, self._send_ready)
        self._topics = self._scheduler.topics
        self._connection = ProducerConnection(config, self._health, lambda: list(self._topics), self._changed)
        self._maintenance = ProducerMaintenance(
            config, self._scheduler, self._connection, self._health, self._tell, self._end
        )
        self._bytes = self._records = 0  # not answered yet
        self._started = self._sending = False
        self._detours: list[tuple[TopicPartition, Any, Batch]] = []  # batches for aiokafka's sender
        self._error: Exception | None = None  # of a turn that sent
        self._detour = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._ended_all = anyio.Event()

    @property
    def fault(self) -> KafkaFault | None:
        return self._health.fault

    @property
    def waiting(self) -> tuple[int, int]:
        return self._records, self._bytes

    # -- public interface -----------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        quieten()
        self._started = True
        tasks.start_soon(run, self._run)
        with anyio.move_on_after(_START_S):
            await self._connection.tried.wait()
        if (fault := self.fault) is not None and fault.credentials:
            await self._close()
            raise fault

    async def stop(self) -> None:
        if not self._started:
            return
        try:
            while self._scheduler.has_unanswered():  # noqa: ASYNC110 rare; no event per record
                await anyio.sleep(_STOP_S)
        finally:
            with anyio.CancelScope(shield=True):
                await self._close()

    def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, done: Acknowledged) -> None:
        state = self._topics.get(topic)
        if state is None:
            state = self._new(topic)
        queue = state.sticky if key is None else state.by_key.get(key) or state.queue_for(key)
        size = size_of(key, value, headers)
        self._bytes += size
        self._records += 1
        queue.entries.append((time.monotonic() + self._timeout, key, value, headers, done, size))
        if not queue.listed:
            self._scheduler.enqueue(queue)

    # -- sending ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._working()
        finally:
            self._ended_all.set()

    async def _working(self) -> None:
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._connection.run)
                tasks.start_soon(self._maintenance.sweep)
                tasks.start_soon(self._maintenance.watch)
                self._sending = True
                self._scheduler.wake()
                try:
                    await self._hand_over_all()
                finally:
                    self._sending = False

    async def _hand_over_all(self) -> None:
        """Hands over the batches that go through aiokafka's sender. Raises what made a turn fail."""
        while True:
            await self._detour.wait()
            self._detour.clear()
            if self._error is not None:
                raise self._error
            detours, self._detours = self._detours, []
            for partition, builder, batch in detours:
                await self._hand_over(partition, builder, batch)

    async def _close(self) -> None:
        self._scope.cancel()
        await self._ended_all.wait()

    def _send_ready(self) -> None:
        """Sends what is ready, to each broker that can take a request."""
        if not self._sending:
            return
        try:
            for number, broker in list(self._scheduler.brokers.items()):
                if broker.open and broker.ready and (client := self._connection.client) is not None:
                    self._send_broker(number, broker, client)
        except Exception as error:
            self._error = error
            self._detour.set()

    def _send_broker(self, number: int, broker: BrokerState, client: ProducerClient) -> None:
        ready, broker.ready = broker.ready, []
        now = time.monotonic()
        direct = client.direct if self._records <= _FEW and client.direct.ready(number) else None
        at_once: list[Outgoing] = []
        for at, queue in enumerate(ready):
            if client.retired:
                broker.ready += ready[at:]
                break
            if queue.batch is not None:
                continue
            partition = TopicPartition(queue.topic.name, queue.number)
            leader = client.cluster.leader_for_partition(partition)
            if queue.not_before > now or leader is None:
                broker.ready.append(queue)  # the sweep comes back to it
                continue
            builder, batch = self._batch(queue, client)
            if batch is None:
                continue
            if direct is not None and leader == number and direct.free(partition):
                at_once.append((partition, builder, partial(self._end, batch)))
            else:
                self._detours.append((partition, builder, batch))
                self._detour.set()
        if at_once:
            try:
                client.direct.send(number, at_once)
            except Exception as error:
                for _, _, ended in at_once:
                    ended(error)

    def _batch(self, queue: PartitionQueue, client: ProducerClient) -> tuple[Any, Batch | None]:
        """The next batch of a queue, which counts as in flight from now on."""
        builder, entries = self._filled(queue, client)
        if queue.topic.sticky is queue and len(queue.topic.queues) > 1:
            queue.topic.rotate_sticky()
        if not entries:
            self._scheduler.batch_done(queue)
            return builder, None
        batch = queue.batch = Batch(queue, entries, client)
        broker = queue.broker
        if broker.open:
            broker.open = False
            broker.closed_at = time.monotonic()
        client.under_way += 1
        return builder, batch

    async def _hand_over(self, partition: TopicPartition, builder: Any, batch: Batch) -> None:
        """Gives a batch to aiokafka's sender."""
        producer = batch.client.producer
        try:
            # does not wait: the partition is known and has no batch in flight
            sent = await producer.send_batch(builder, partition.topic, partition=partition.partition)
        except Exception as error:
            self._end(batch, error)
        else:
            sent.add_done_callback(partial(self._ended, batch))

    def _filled(self, queue: PartitionQueue, client: ProducerClient) -> tuple[Any, list[Entry]]:
        """A batch of the first waiting records, and these records."""
        largest = self._config.max_record_bytes
        now = int(time.time() * 1000)
        while True:
            builder = client.producer.create_batch()
            append = builder.append
            entries = queue.entries
            if len(entries) > queue.limit:
                entries = entries[: queue.limit]
            count = 0
            bad: KafkaFault | None = None
            for entry in entries:  # not unpacked: `*_` would be a list for each record
                try:
                    added = append(timestamp=now, key=entry[1], value=entry[2], headers=entry[3])
                except (TypeError, ValueError, AttributeError) as error:
                    bad = KafkaFault(f"the record can't be written: {error}", retry=False)
                    break
                if added is None:
                    break
                if added.size > largest:
                    bad = KafkaFault(
                        f"the record has {added.size} bytes; the limit is {largest} (max_record_bytes)",
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
        batch.broker.open = True
        if error is None and not lost:
            self._maintenance.answered = time.monotonic()
            if self._health.fault is not None:
                self._health.good()
            queue.wrote(len(batch.entries))
            if client.retired:
                self._connection.ended(client)
            self._scheduler.batch_done(queue)
            self._tell(batch.entries[batch.answered :] if batch.answered else batch.entries, None)
        else:
            self._connection.retire(client)
            self._failed(batch, error or errors.ProducerClosed())
        if batch.broker.ready or queue.broker.ready:
            self._scheduler.wake()

    def _failed(self, batch: Batch, error: BaseException) -> None:
        queue, entries = batch.queue, batch.entries
        rest = entries[batch.answered :]
        fault = fault_of(error, f"topic {queue.topic.name}")
        one_of_them = isinstance(error, _ONE_OF_THEM)
        if one_of_them and len(entries) > 1:
            queue.halve(len(entries), len(entries) * (100 if len(rest) > 2 else 1))
        elif not fault.retry or (one_of_them and queue.tries >= _UNKNOWN_TRIES):
            queue.tries = 0
            self._scheduler.batch_done(queue)
            self._tell(rest, fault)
            return
        else:
            queue.not_before = time.monotonic() + _RETRY_DELAYS_S[min(queue.tries, len(_RETRY_DELAYS_S) - 1)]
            queue.tries += 1
            _log.warning("%s; retrying %d records", fault, len(rest))
        queue.entries[:0] = rest
        self._scheduler.batch_done(queue)

    def _tell(self, entries: Iterable[Entry], fault: KafkaFault | None) -> None:
        for entry in entries:
            self._bytes -= entry[5]
            self._records -= 1
            try:
                entry[4](fault)
            except Exception:
                _log.exception("the callback of a record failed")

    # -- the client ------------------------------------------------------------------------------------------------

    def _new(self, name: str) -> TopicQueues:
        topic = self._scheduler.topics[name] = TopicQueues(name, self._scheduler.no_leader)
        if (client := self._connection.client) is not None:
            client.producer.client.add_topic(name)
        return topic

    def _changed(self) -> None:
        """There is a new client, or its cluster metadata has changed."""
        if (client := self._connection.client) is not None:
            self._scheduler.update_leaders(client.cluster)
