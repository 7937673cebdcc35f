"""Offset commits of a librdkafka consumer, on the thread that polls it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from gateway_kafka.client import Begins, KafkaFault, Partition, offset_metadata
from gateway_kafka.health import Health

from .faults import fault_of, text_of

_log = logging.getLogger("tidegate.kafka")

Offsets = Mapping[Partition, int]
Done = Callable[[KafkaFault | None], None]

_NOT_OURS = {  # another member has the partitions now, and reads from the last committed offset
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._NO_OFFSET,
}


class Commits:
    """The commits that the event loop requests, at most one in flight. `tell` calls back on the loop."""

    def __init__(self, group: str, begins: Begins, health: Health, tell: Callable[..., None]) -> None:
        self._group = group
        self._begins = begins
        self._health = health
        self._tell = tell
        self._wanted: deque[tuple[Offsets, Done]] = deque()
        self._under_way: tuple[Offsets, list[Done]] | None = None

    def want(self, offsets: Offsets, done: Done) -> None:
        """Called on the loop: commits the offsets of our partitions; `done` is called on the loop."""
        self._wanted.append((offsets, done))

    @property
    def waits(self) -> bool:
        """Whether `go_on` has something to do."""
        return bool(self._wanted) and self._under_way is None

    def go_on(self, client: Any, ours: Mapping[Partition, str]) -> None:
        """Starts a commit of everything requested. `ours` has the partitions that may be committed, with the ids of
        their topics."""
        merged: dict[Partition, int] = {}
        waiting: list[Done] = []
        while self._wanted:
            offsets, done = self._wanted.popleft()
            merged |= {name: offset for name, offset in offsets.items() if name in ours}
            waiting.append(done)
        if not merged:
            self._answer(waiting, None)
            return
        self._under_way = (merged, waiting)
        try:
            client.commit(offsets=_listed(merged, ours, self._begins), asynchronous=True)
        except KafkaException as error:
            self.told(error.args[0], [])

    def told(self, error: Any, partitions: Sequence[Any]) -> None:
        """librdkafka's `on_commit`, which also reports the commits of `last`."""
        if self._under_way is None:
            return
        offsets, waiting = self._under_way
        if partitions and {(p.topic, p.partition): p.offset for p in partitions} != offsets:
            return
        self._under_way = None
        try:
            if error is not None:
                raise KafkaException(error)
            _check(partitions)
        except KafkaException as failure:
            what = failure.args[0]
            fault = None if what.code() in _NOT_OURS else fault_of(what, f"commit of group {self._group}")
            self._answer(waiting, fault)
        else:
            self._answer(waiting, None)

    def last(self, client: Any, offsets: Offsets, ids: Mapping[Partition, str]) -> None:
        """Commits the offsets of partitions that are about to be revoked, and waits for it."""
        if self._health.fault is not None:
            self._lost(str(self._health.fault))
            return
        try:
            _check(client.commit(offsets=_listed(offsets, ids, self._begins), asynchronous=False))
        except KafkaException as error:
            if error.args[0].code() not in _NOT_OURS:
                self._lost(text_of(error.args[0]))

    def _lost(self, why: str) -> None:
        _log.warning("consumer group %s: can't commit the last offsets: %s", self._group, why)

    def drop(self) -> None:
        """The client was closed: the commit in flight will not be reported."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            self._answer(under_way[1], KafkaFault("the consumer has been closed"))

    def close(self) -> None:
        """No other client follows."""
        while self._wanted:
            self._answer([self._wanted.popleft()[1]], KafkaFault("the consumer has been closed"))

    def _answer(self, waiting: list[Done], fault: KafkaFault | None) -> None:
        for done in waiting:
            self._tell(done, fault)


def _check(partitions: Sequence[Any]) -> None:
    for partition in partitions:
        if partition.error is not None:
            raise KafkaException(partition.error)


def _listed(offsets: Offsets, ids: Mapping[Partition, str], begins: Begins) -> list[Any]:
    return [
        TopicPartition(*name, offset, offset_metadata(ids.get(name, ""), begins.get(name)))
        for name, offset in offsets.items()
    ]
