"""Records that wait to be written: a queue for each partition, the queues of a topic, and the lane to each broker."""

from __future__ import annotations

from typing import Any

from ..client import Acknowledged, Headers, KafkaFault
from .murmur import partition_of

Entry = tuple[float, bytes | None, bytes | None, Headers, Acknowledged, int]
"""Deadline (monotonic seconds), key, value, headers, whom to tell, bytes."""

_KEYS_KEPT = 8192
_NO_LIMIT = 1 << 30


class Lane:
    """The way to one broker, on which aiokafka has one request under way. It is open while nothing was sent since the
    last answer: what arrives while it is closed goes together in the next request. `ready` are the queues with
    records of which no batch is under way."""

    __slots__ = ("closed_at", "open", "ready")

    def __init__(self) -> None:
        self.open = True
        self.closed_at = 0.0
        self.ready: list[Queue] = []


class Queue:
    """What waits for one partition. One batch of it is under way at most, which keeps the order over every retry.

    `listed`    it has records or a batch under way, and is in its lane's `ready` unless the latter.
    `most`      the most records in one batch: fewer for a while after a batch was refused for one of its records.
    `held`      not to be sent before (monotonic seconds), `tries` failures of a batch in a row
    """

    __slots__ = ("batch", "cautious", "entries", "held", "lane", "listed", "most", "number", "topic", "tries")

    def __init__(self, topic: Topic, number: int, lane: Lane) -> None:
        self.topic = topic
        self.number = number
        self.lane = lane
        self.entries: list[Entry] = []
        self.batch: Batch | None = None
        self.listed = False
        self.most = _NO_LIMIT
        self.cautious = 0
        self.held = 0.0
        self.tries = 0

    def halve(self, records: int, lasting: int) -> None:
        """A batch of so many was refused for one of them: smaller ones, until so many have been written."""
        self.most = max(1, records // 2)
        self.cautious = lasting

    def expired(self, now: float) -> list[Entry]:
        """Those whose time is over; they are first. What is under way stays so."""
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
        """The first deadline of those not answered yet."""
        batch = self.batch
        if batch is not None and batch.answered < len(batch.entries):
            return batch.entries[batch.answered][0]
        return self.entries[0][0] if self.entries else None

    def wrote(self, records: int) -> None:
        self.tries = 0
        if self.cautious:
            self.cautious = max(0, self.cautious - records)
            if not self.cautious:
                self.most = _NO_LIMIT


class Batch:
    """Records of one partition under way. The first `answered` of them were told that their time is over. It is `over`
    once it was acknowledged, or has failed, or was given up."""

    __slots__ = ("answered", "client", "entries", "lane", "over", "queue")

    def __init__(self, queue: Queue, entries: list[Entry], client: Any) -> None:
        self.queue = queue
        self.lane = queue.lane
        self.entries = entries
        self.client = client
        self.answered = 0
        self.over = False


class Topic:
    """A topic's queues. Until its partitions are known its records wait in `unplaced`, which is in no lane."""

    __slots__ = ("absent", "name", "places", "queues", "refusal", "sticky", "unplaced")

    def __init__(self, name: str, nowhere: Lane) -> None:
        self.name = name
        self.queues: list[Queue] = []
        self.unplaced = Queue(self, -1, nowhere)
        self.unplaced.listed = True
        self.sticky = self.unplaced
        self.places: dict[bytes, Queue] = {}
        self.absent = False
        self.refusal: KafkaFault | None = None

    def place(self, key: bytes) -> Queue:
        """The queue of a key that is not in `places`."""
        if not self.queues:
            return self.unplaced
        queue = self.queues[partition_of(key, len(self.queues))]
        if len(self.places) >= _KEYS_KEPT:
            self.places.clear()
        self.places[key] = queue
        return queue

    def resize(self, partitions: int, nowhere: Lane) -> None:
        """The topic has so many partitions."""
        for gone in self.queues[partitions:]:  # the topic was made anew
            self.unplaced.entries += gone.entries
            gone.entries = []
        del self.queues[partitions:]
        self.queues += [Queue(self, number, nowhere) for number in range(len(self.queues), partitions)]
        self.places.clear()
        self.sticky = self.queues[0]

    def turn(self) -> None:
        """Records without a key go to another partition from now on: the next one that can be sent to at once, else the
        next one of which nothing is under way, else the next."""
        queues = self.queues
        start = self.sticky.number + 1
        turn = queues[start:] + queues[:start]
        idle = [queue for queue in turn if queue.batch is None]
        self.sticky = next((queue for queue in idle if queue.lane.open), idle[0] if idle else turn[0])
