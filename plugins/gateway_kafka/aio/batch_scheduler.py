"""What a producer has to send: its topics, their partition queues, and the brokers that can take a request."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import errors
from aiokafka.structs import TopicPartition

from .faults import fault_of
from .partition_queue import BrokerState, PartitionQueue, TopicQueues


class BatchScheduler:
    """`busy` holds the queues that have records or a batch in flight (and some that became idle a moment ago). `wake`
    is set when there is something to send. `linger_s` is how long the first record waits for others."""

    def __init__(self, linger_s: float) -> None:
        self.topics: dict[str, TopicQueues] = {}
        self.brokers: dict[int, BrokerState] = {}
        self.no_leader = BrokerState()  # for partitions without a leader; never open
        self.no_leader.open = False
        self.busy: set[PartitionQueue] = set()
        self.wake = asyncio.Event()
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
                self.wake.set()
            elif self._lingering is None:
                self._lingering = asyncio.get_running_loop().call_later(self._linger, self._lingered)

    def _lingered(self) -> None:
        self._lingering = None
        self.wake.set()

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
        self.wake.set()

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
