"""What a producer has to send: a queue for each partition, and the brokers that can take a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka import errors
from aiokafka.structs import TopicPartition

from ..client import Acknowledged, Headers, KafkaFault
from .faults import fault_of
from .murmur import partition_of

Entry = tuple[float, bytes | None, bytes | None, Headers, Acknowledged, int]
"""Deadline (monotonic seconds), key, value, headers, callback, size in bytes."""

_MAX_KEYS = 8192
_NO_LIMIT = 1 << 30


class BrokerState:
    """One broker, to which aiokafka sends one request at a time. It is open if nothing was sent since its last
    response; what arrives while it is closed goes into the next request. `ready` holds the queues that have records and
    no batch in flight."""

    __slots__ = ("closed_at", "open", "ready")

    def __init__(self) -> None:
        self.open = True
        self.closed_at = 0.0
        self.ready: list[PartitionQueue] = []


class PartitionQueue:
    """The records that wait for one partition. At most one batch of it is in flight, which keeps the order through
    every retry.

    `listed`      it has records or a batch in flight; without a batch it is in its broker's `ready`
    `limit`       the most records in one batch; smaller for a while after a batch was rejected because of one record
    `not_before`  when the next batch may be sent (monotonic seconds), after `tries` failures in a row
    """

    __slots__ = ("batch", "broker", "cautious", "entries", "limit", "listed", "not_before", "number", "topic", "tries")

    def __init__(self, topic: TopicQueues, number: int, broker: BrokerState) -> None:
        self.topic = topic
        self.number = number
        self.broker = broker
        self.entries: list[Entry] = []
        self.batch: Batch | None = None
        self.listed = False
        self.limit = _NO_LIMIT
        self.cautious = 0
        self.not_before = 0.0
        self.tries = 0

    def halve(self, records: int, lasting: int) -> None:
        """Halves the batch size after a batch of this size was rejected because of one record, until `lasting` records
        have been written."""
        self.limit = max(1, records // 2)
        self.cautious = lasting

    def expired(self, now: float) -> list[Entry]:
        """Removes and returns the records whose deadline has passed; these come first. A batch in flight is not
        cancelled."""
        found: list[Entry] = []
        if (batch := self.batch) is not None:
            first = batch.answered
            while batch.answered < len(batch.entries) and batch.entries[batch.answered][0] <= now:
                batch.answered += 1
            found = batch.entries[first : batch.answered]
        count = 0
        while count < len(self.entries) and self.entries[count][0] <= now:
            count += 1
        if count:
            found += self.entries[:count]
            del self.entries[:count]
        return found

    def oldest(self) -> float | None:
        """The earliest deadline among the unanswered records."""
        batch = self.batch
        if batch is not None and batch.answered < len(batch.entries):
            return batch.entries[batch.answered][0]
        return self.entries[0][0] if self.entries else None

    def wrote(self, records: int) -> None:
        self.tries = 0
        if self.cautious:
            self.cautious = max(0, self.cautious - records)
            if not self.cautious:
                self.limit = _NO_LIMIT


class Batch:
    """Records of one partition in flight. The first `answered` of them have been reported as timed out. `over` is set
    once the batch was acknowledged, failed or abandoned."""

    __slots__ = ("answered", "broker", "client", "entries", "over", "queue")

    def __init__(self, queue: PartitionQueue, entries: list[Entry], client: Any) -> None:
        self.queue = queue
        self.broker = queue.broker
        self.entries = entries
        self.client = client
        self.answered = 0
        self.over = False


class TopicQueues:
    """The partition queues of a topic. Until the partitions are known, its records wait in `pending`, which belongs to
    no broker."""

    __slots__ = ("absent", "by_key", "name", "pending", "queues", "refusal", "sticky")

    def __init__(self, name: str, no_leader: BrokerState) -> None:
        self.name = name
        self.queues: list[PartitionQueue] = []
        self.pending = PartitionQueue(self, -1, no_leader)
        self.pending.listed = True
        self.sticky = self.pending
        self.by_key: dict[bytes, PartitionQueue] = {}
        self.absent = False
        self.refusal: KafkaFault | None = None

    def queue_for(self, key: bytes) -> PartitionQueue:
        """The queue for a key that is not in `by_key`."""
        if not self.queues:
            return self.pending
        queue = self.queues[partition_of(key, len(self.queues))]
        if len(self.by_key) >= _MAX_KEYS:
            self.by_key.clear()
        self.by_key[key] = queue
        return queue

    def resize(self, partitions: int, no_leader: BrokerState) -> None:
        """The topic now has this many partitions."""
        for gone in self.queues[partitions:]:  # the topic was recreated with fewer
            self.pending.entries += gone.entries
            gone.entries = []
        del self.queues[partitions:]
        self.queues += [PartitionQueue(self, number, no_leader) for number in range(len(self.queues), partitions)]
        self.by_key.clear()
        self.sticky = self.queues[0]

    def rotate_sticky(self) -> None:
        """Sends records without a key to another partition from now on: the next one that can be sent at once, else the
        next one without a batch in flight, else the next one."""
        queues = self.queues
        start = self.sticky.number + 1
        order = queues[start:] + queues[:start]
        idle = [queue for queue in order if queue.batch is None]
        self.sticky = next((queue for queue in idle if queue.broker.open), idle[0] if idle else order[0])


class BatchScheduler:
    """`busy` holds the queues that have records or a batch in flight (and some that became idle a moment ago). `send`
    is called soon when there is something to send. `linger_s` is how long the first record waits for others."""

    def __init__(self, linger_s: float, send: Callable[[], None]) -> None:
        self.topics: dict[str, TopicQueues] = {}
        self.brokers: dict[int, BrokerState] = {}
        self.no_leader = BrokerState()  # for partitions without a leader; never open
        self.no_leader.open = False
        self.busy: set[PartitionQueue] = set()
        self._send = send
        self._woken = False
        self._linger = linger_s
        self._lingering: asyncio.TimerHandle | None = None

    def enqueue(self, queue: PartitionQueue) -> None:
        """Lists a queue that has just received its first record."""
        queue.listed = True
        broker = queue.broker
        broker.ready.append(queue)
        self.busy.add(queue)
        if broker.open:
            if not self._linger:
                self.wake()
            elif self._lingering is None:
                self._lingering = asyncio.get_running_loop().call_later(self._linger, self._lingered)

    def _lingered(self) -> None:
        self._lingering = None
        self.wake()

    def wake(self) -> None:
        """There is something to send: in the next turn of the loop, so that all records of this turn are in it."""
        if not self._woken:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._woken = False
        self._send()

    def batch_done(self, queue: PartitionQueue) -> None:
        """Lists a queue again after its batch has ended, if it has more records."""
        if queue.entries:
            queue.broker.ready.append(queue)
        else:
            queue.listed = False

    def forget_idle(self) -> None:
        self.busy -= {queue for queue in self.busy if queue.batch is None and not queue.entries}

    def has_unanswered(self) -> bool:
        """Whether any record has not been answered yet."""
        return self.has_pending() or any(queue.oldest() is not None for queue in self.busy)

    def has_pending(self) -> bool:
        """Whether any record waits for its topic's metadata."""
        return any(topic.pending.entries for topic in self.topics.values())

    def update_leaders(self, cluster: Any) -> None:
        """Takes over partitions and leaders from aiokafka's `ClusterMetadata`."""
        for broker in (*self.brokers.values(), self.no_leader):
            broker.ready = []
            broker.open = broker is not self.no_leader
        for topic in self.topics.values():
            self._update_topic(topic, cluster)
        self.wake()

    def _update_topic(self, topic: TopicQueues, cluster: Any) -> None:
        partitions = cluster.partitions_for_topic(topic.name)
        topic.absent = partitions is None
        topic.refusal = None
        if topic.name in cluster.unauthorized_topics:
            topic.refusal = fault_of(errors.TopicAuthorizationFailedError(), f"topic {topic.name}")
        if partitions and len(partitions) != len(topic.queues):
            topic.resize(len(partitions), self.no_leader)
        for queue in topic.queues:
            leader = cluster.leader_for_partition(TopicPartition(topic.name, queue.number))
            known = leader is not None and leader >= 0
            queue.broker = self.brokers.setdefault(leader, BrokerState()) if known else self.no_leader
            if queue.listed and queue.batch is None:
                queue.broker.ready.append(queue)
        if topic.queues and topic.pending.entries:
            self._distribute(topic)

    def _distribute(self, topic: TopicQueues) -> None:
        waiting, topic.pending.entries = topic.pending.entries, []
        for entry in waiting:
            queue = topic.sticky if entry[1] is None else topic.by_key.get(entry[1]) or topic.queue_for(entry[1])
            queue.entries.append(entry)
            if not queue.listed:
                self.enqueue(queue)
