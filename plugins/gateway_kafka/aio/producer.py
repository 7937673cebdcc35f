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

from ..client import Acknowledged, Headers, KafkaFault
from ..config import KafkaProducerConfig
from .faults import fault_of, probe, quieten
from .gather import Batch, Entry, Lane, Queue, Topic
from .link import Client, Link
from .standing import Standing

_log = logging.getLogger("tidegate.kafka")
_START_S = 5.0  # how long a start waits for the cluster
_STOP_S = 0.005
_SWEEP_S = 0.1
_LANE_S = 0.25  # a lane whose batches are all tried again and again must not stop the others
_SILENT_S = 3.0  # without any acknowledgement for so long something is wrong
_WATCH_S = 1.0
_STUCK = 10  # looks at a cluster that answers to a look, but not to us, before another client is made
_UNKNOWN_S = 5.0  # how long a record waits for a topic that the cluster does not know
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
        self._linger = config.linger_ms / 1000
        self._standing = Standing("the Kafka producer")
        self._nowhere = Lane()  # to partitions without a leader; never open
        self._nowhere.open = False
        self._lanes: dict[int, Lane] = {}
        self._topics: dict[str, Topic] = {}
        self._busy: set[Queue] = set()
        self._wake = asyncio.Event()
        self._lingering: asyncio.TimerHandle | None = None
        self._answered = 0.0
        self._stuck = 0
        self._link = Link(config, self._standing, lambda: list(self._topics), self._changed)
        self._scope = anyio.CancelScope()
        self._ended_all = anyio.Event()

    @property
    def fault(self) -> KafkaFault | None:
        return self._standing.fault

    # -- from the outside ------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        quieten()
        tasks.start_soon(self._run)
        with anyio.move_on_after(_START_S):
            await self._link.tried.wait()
        if (fault := self.fault) is not None and fault.credentials:
            await self._close()
            raise fault

    async def stop(self) -> None:
        try:
            while self._waits():
                await anyio.sleep(_STOP_S)
        finally:
            with anyio.CancelScope(shield=True):
                await self._close()

    def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, done: Acknowledged) -> None:
        state = self._topics.get(topic)
        if state is None:
            state = self._new(topic)
        queue = state.sticky if key is None else state.places.get(key) or state.place(key)
        queue.entries.append((time.monotonic() + self._timeout, key, value, headers, done))
        if not queue.listed:
            self._list(queue)

    def _waits(self) -> bool:
        """Whether a record is not answered yet."""
        if any(topic.unplaced.entries for topic in self._topics.values()):
            return True
        return any(queue.oldest() is not None for queue in self._busy)

    # -- sending ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._link.run)
                tasks.start_soon(self._sweeping)
                tasks.start_soon(self._watching)
                while True:
                    await self._wake.wait()
                    self._wake.clear()
                    for lane in list(self._lanes.values()):
                        if lane.open and lane.ready and (client := self._link.client) is not None:
                            await self._send_lane(lane, client)
        self._ended_all.set()

    async def _close(self) -> None:
        self._scope.cancel()
        await self._ended_all.wait()

    def _list(self, queue: Queue) -> None:
        queue.listed = True
        lane = queue.lane
        lane.ready.append(queue)
        self._busy.add(queue)
        if lane.open:
            if not self._linger:
                self._wake.set()
            elif self._lingering is None:
                self._lingering = asyncio.get_running_loop().call_later(self._linger, self._lingered)

    def _lingered(self) -> None:
        self._lingering = None
        self._wake.set()

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
            self._relist(queue)
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
            for _, key, value, headers, _ in entries:
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
            self._answered = time.monotonic()
            if self._standing.fault is not None:
                self._standing.good()
            queue.wrote(len(batch.entries))
            self._link.ended(client)
            self._relist(queue)
            self._tell(batch.entries[batch.answered :] if batch.answered else batch.entries, None)
        else:
            self._link.retire(client)
            self._failed(batch, error or errors.ProducerClosed())
        if self._busy:
            self._wake.set()

    def _failed(self, batch: Batch, error: BaseException) -> None:
        queue, entries = batch.queue, batch.entries
        rest = entries[batch.answered :]
        fault = fault_of(error, f"topic {queue.topic.name}")
        one_of_them = isinstance(error, _ONE_OF_THEM)
        if one_of_them and len(entries) > 1:
            queue.halve(len(entries), len(entries) * (100 if len(rest) > 2 else 1))
        elif not fault.retry or (one_of_them and queue.tries >= _UNKNOWN_TRIES):
            queue.tries = 0
            self._relist(queue)
            self._tell(rest, fault)
            return
        else:
            queue.held = time.monotonic() + _HOLD_S[min(queue.tries, len(_HOLD_S) - 1)]
            queue.tries += 1
            _log.warning("%s; %d records are sent again", fault, len(rest))
        queue.entries[:0] = rest
        self._relist(queue)

    def _relist(self, queue: Queue) -> None:
        if queue.entries:
            queue.lane.ready.append(queue)
        else:
            queue.listed = False

    def _tell(self, entries: Iterable[Entry], fault: KafkaFault | None) -> None:
        for entry in entries:
            try:
                entry[4](fault)
            except Exception:
                _log.exception("what waited for a record failed")

    # -- what the cluster looks like ---------------------------------------------------------------------------------

    def _new(self, name: str) -> Topic:
        topic = self._topics[name] = Topic(name, self._nowhere)
        if (client := self._link.client) is not None:
            client.producer.client.add_topic(name)
        return topic

    def _changed(self) -> None:
        """The client is another one, or has learned about the cluster."""
        client = self._link.client
        if client is None:
            return
        for lane in (*self._lanes.values(), self._nowhere):
            lane.ready = []
            lane.open = lane is not self._nowhere
        for topic in self._topics.values():
            self._look_at(topic, client)
        self._wake.set()

    def _look_at(self, topic: Topic, client: Client) -> None:
        partitions = client.cluster.partitions_for_topic(topic.name)
        topic.absent = partitions is None
        if topic.name in client.cluster.unauthorized_topics:
            topic.refusal = fault_of(errors.TopicAuthorizationFailedError(), f"topic {topic.name}")
        else:
            topic.refusal = None
        if partitions and len(partitions) != len(topic.queues):
            topic.resize(len(partitions), self._nowhere)
        for queue in topic.queues:
            leader = client.cluster.leader_for_partition(TopicPartition(topic.name, queue.number))
            if leader is None or leader == -1:
                queue.lane = self._nowhere
            else:
                queue.lane = self._lanes.get(leader) or self._lanes.setdefault(leader, Lane())
            if queue.listed and queue.batch is None:
                queue.lane.ready.append(queue)
        if topic.queues and topic.unplaced.entries:
            waiting, topic.unplaced.entries = topic.unplaced.entries, []
            for entry in waiting:
                queue = topic.sticky if entry[1] is None else topic.places.get(entry[1]) or topic.place(entry[1])
                queue.entries.append(entry)
                if not queue.listed:
                    self._list(queue)

    # -- time --------------------------------------------------------------------------------------------------------

    async def _sweeping(self) -> None:
        """Ends what has waited too long, and sees to what can't go on by itself."""
        while True:
            await anyio.sleep(_SWEEP_S)
            now = time.monotonic()
            self._forget_idle()
            for queue in list(self._busy):
                if expired := queue.expired(now):
                    self._tell(expired, self._late(queue.topic))
            for topic in list(self._topics.values()):
                if topic.unplaced.entries:
                    self._see_to_unknown(topic, now)
            if (client := self._link.client) is not None and (
                self._nowhere.ready or any(topic.unplaced.entries for topic in self._topics.values())
            ):
                client.producer.client.force_metadata_update()
            for lane in self._lanes.values():
                if lane.ready and (lane.open or now - lane.closed_at > _LANE_S):
                    lane.open = True
                    self._wake.set()

    def _forget_idle(self) -> None:
        self._busy -= {queue for queue in self._busy if queue.batch is None and not queue.entries}

    def _see_to_unknown(self, topic: Topic, now: float) -> None:
        waiting = topic.unplaced
        if topic.refusal is not None:
            gone, waiting.entries = waiting.entries, []
            fault: KafkaFault = topic.refusal
        elif topic.absent and self.fault is None:
            gone = waiting.expired(now + max(0.0, self._timeout - _UNKNOWN_S))
            fault = KafkaFault(f"the topic {topic.name} does not exist")
        else:
            gone = waiting.expired(now)
            fault = self._late(topic)
        self._tell(gone, fault)
        if not topic.queues and not waiting.entries:
            del self._topics[topic.name]  # whoever chooses topics by attributes must not fill the memory
            if (client := self._link.client) is not None and self._topics:
                client.producer.client.set_topics(self._topics)

    def _late(self, topic: Topic) -> KafkaFault:
        fault = self.fault
        text = f"topic {topic.name}: not acknowledged within {self._timeout:g} s"
        why = fault or ("it does not exist any more" if topic.absent else None)
        return KafkaFault(f"{text}: {why}" if why else text, credentials=fault is not None and fault.credentials)

    async def _watching(self) -> None:
        """Notices that nothing is acknowledged any more, and finds out why, where that can be found out."""
        while True:
            await anyio.sleep(_WATCH_S)
            if self._link.client is None:
                continue  # the link tells what is wrong
            silent = self._silent()
            if silent:
                where = f"Kafka at {','.join(self._config.bootstrap)}"
                self._standing.bad(KafkaFault(f"{where}: no record was acknowledged for {_SILENT_S:g} s"))
            if self.fault is None:
                self._stuck = 0
            else:
                try:
                    await probe(self._config)
                except KafkaFault as fault:
                    self._standing.bad(fault)
                else:
                    if not silent and not self._silent():
                        self._standing.good()
                    self._give_up()

    def _give_up(self) -> None:
        """The cluster can be reached, but not by a client that has tried until the time of its records was over: all
        brokers may have new addresses, and aiokafka asks none but those it knows. Another client takes over."""
        lost = [b for queue in self._busy if (b := queue.batch) is not None and b.answered == len(b.entries)]
        self._stuck = self._stuck + 1 if lost else 0
        if self._stuck < _STUCK:
            return
        self._stuck = 0
        _log.warning("%d batches of records are given up; connects anew", len(lost))
        for batch in lost:
            self._link.abandon(batch.client)
            self._end(batch, errors.ProducerClosed())

    def _silent(self) -> bool:
        now = time.monotonic()
        if now - self._answered < _SILENT_S:
            return False
        limit = now + self._timeout - _SILENT_S
        return any((oldest := queue.oldest()) is not None and oldest < limit for queue in self._busy)
