"""All that a producer has to write: topics, their queues, and the lanes to the brokers."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import errors
from aiokafka.structs import TopicPartition

from .faults import fault_of
from .gather import Lane, Queue, Topic


class Board:
    """`busy` are the queues with records or a batch under way (and some that are idle since a moment). `wake` is set
    when there is something to send. `linger_s` is how long the first record waits for others."""

    def __init__(self, linger_s: float) -> None:
        self.topics: dict[str, Topic] = {}
        self.lanes: dict[int, Lane] = {}
        self.nowhere = Lane()  # to partitions without a leader; never open
        self.nowhere.open = False
        self.busy: set[Queue] = set()
        self.wake = asyncio.Event()
        self._linger = linger_s
        self._lingering: asyncio.TimerHandle | None = None

    def begin(self, queue: Queue) -> None:
        """A queue has its first record."""
        queue.listed = True
        lane = queue.lane
        lane.ready.append(queue)
        self.busy.add(queue)
        if lane.open:
            if not self._linger:
                self.wake.set()
            elif self._lingering is None:
                self._lingering = asyncio.get_running_loop().call_later(self._linger, self._lingered)

    def _lingered(self) -> None:
        self._lingering = None
        self.wake.set()

    def go_on(self, queue: Queue) -> None:
        """Nothing of a queue is under way any more."""
        if queue.entries:
            queue.lane.ready.append(queue)
        else:
            queue.listed = False

    def forget_idle(self) -> None:
        self.busy -= {queue for queue in self.busy if queue.batch is None and not queue.entries}

    def waits(self) -> bool:
        """Whether a record is not answered yet."""
        return self.unplaced() or any(queue.oldest() is not None for queue in self.busy)

    def unplaced(self) -> bool:
        """Whether a record waits for its topic."""
        return any(topic.unplaced.entries for topic in self.topics.values())

    def learn(self, cluster: Any) -> None:
        """Takes over what aiokafka's `ClusterMetadata` knows: partitions and their leaders."""
        for lane in (*self.lanes.values(), self.nowhere):
            lane.ready = []
            lane.open = lane is not self.nowhere
        for topic in self.topics.values():
            self._learn(topic, cluster)
        self.wake.set()

    def _learn(self, topic: Topic, cluster: Any) -> None:
        partitions = cluster.partitions_for_topic(topic.name)
        topic.absent = partitions is None
        topic.refusal = None
        if topic.name in cluster.unauthorized_topics:
            topic.refusal = fault_of(errors.TopicAuthorizationFailedError(), f"topic {topic.name}")
        if partitions and len(partitions) != len(topic.queues):
            topic.resize(len(partitions), self.nowhere)
        for queue in topic.queues:
            leader = cluster.leader_for_partition(TopicPartition(topic.name, queue.number))
            known = leader is not None and leader >= 0
            queue.lane = self.lanes.setdefault(leader, Lane()) if known else self.nowhere
            if queue.listed and queue.batch is None:
                queue.lane.ready.append(queue)
        if topic.queues and topic.unplaced.entries:
            self._place(topic)

    def _place(self, topic: Topic) -> None:
        waiting, topic.unplaced.entries = topic.unplaced.entries, []
        for entry in waiting:
            queue = topic.sticky if entry[1] is None else topic.places.get(entry[1]) or topic.place(entry[1])
            queue.entries.append(entry)
            if not queue.listed:
                self.begin(queue)
