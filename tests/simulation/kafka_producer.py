"""The producer of the simulated Kafka cluster."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import TaskGroup
from gateway_kafka.client import Acknowledged, Headers, KafkaFault, Partition
from gateway_kafka.client_config import KafkaProducerConfig
from gateway_kafka.records import size_of

from .kafka_cluster import Cluster

REFUSED, TOO_LARGE, ANSWER_LOST, LOST = range(4)
"""What `kafka-produce` means for a request: it is refused for now, or for good; its answer is lost; it is lost."""
_AGAIN_S = 0.2
_SILENT_S = 1.0
"""When a request without an answer is sent again."""


@dataclass(eq=False)
class Entry:
    """A record on its way. It is `written` once, however often it is sent, as those of idempotent producers are."""

    deadline: float
    key: bytes | None
    value: bytes | None
    headers: Headers
    done: Acknowledged
    size: int
    number: int = -1
    written: bool = False
    over: bool = False


class SimulatedProducer:
    """`client.Producer`: one request of a partition at a time, with all that waits."""

    def __init__(self, cluster: Cluster, config: KafkaProducerConfig) -> None:
        self._cluster = cluster
        self._timeout_s = config.delivery_timeout_s
        self._queues: dict[Partition, list[Entry]] = {}
        self._flying: set[Partition] = set()
        self._waits: dict[Partition, bool] = {}
        self._records = self._bytes = 0
        self._loop: Any = None
        self._life = 0

    @property
    def fault(self) -> KafkaFault | None:
        """See `client.Producer`."""
        return KafkaFault("no broker answers") if self._cluster.away else None

    @property
    def waiting(self) -> tuple[int, int]:
        """See `client.Producer`."""
        return self._records, self._bytes

    async def start(self, tasks: TaskGroup) -> None:
        """See `client.Producer`."""
        self._loop = asyncio.get_running_loop()
        self._life = self._cluster.world.generation
        with anyio.move_on_after(5.0):
            while self._cluster.away:  # noqa: ASYNC110 - the fault ends by itself
                await anyio.sleep(_AGAIN_S)

    async def stop(self) -> None:
        """See `client.Producer`."""
        while self._records:  # noqa: ASYNC110 - as the real one
            await anyio.sleep(0.005)

    def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, done: Acknowledged) -> None:
        """See `client.Producer`."""
        where = self._cluster.partition_of(topic, key)
        entry = Entry(self._loop.time() + self._timeout_s, key, value, headers, done, size_of(key, value, headers))
        self._records += 1
        self._bytes += entry.size
        self._queues.setdefault(where, []).append(entry)
        self._loop.call_later(self._timeout_s, self._expire, where, entry)
        self._loop.call_soon(self._pump, where)

    def _pump(self, where: Partition) -> None:
        """Sends what waits, if nothing is under way."""
        cluster = self._cluster
        batch = [entry for entry in self._queues[where] if not entry.over]
        self._queues[where] = list(batch)
        if where in self._flying or not batch:
            return
        self._flying.add(where)
        if cluster.away:
            self._loop.call_later(_AGAIN_S, self._again, where)
            return
        cluster.world.scheduler.after(cluster.delay(), self._arrive, where, batch)

    def _again(self, where: Partition) -> None:
        self._flying.discard(where)
        self._pump(where)

    def _arrive(self, where: Partition, batch: list[Entry]) -> None:
        """The request is at the broker, whatever has become of the gateway."""
        cluster = self._cluster
        fault = cluster.lasts("kafka-produce")
        if cluster.away or fault == LOST:
            self._later(_SILENT_S, self._again, where)
            return
        if fault == REFUSED:
            self._later(_AGAIN_S + cluster.delay(), self._again, where)
            return
        if fault == TOO_LARGE:
            refused = KafkaFault("the record is too large", retry=False)
            self._later(cluster.delay(), self._answered, where, [e for e in batch if not e.written], refused)
            return
        for entry in batch:
            if not entry.written:
                entry.written = True
                entry.number = cluster.write(where, entry.key, entry.value, entry.headers, by=self._life)
            if fault != ANSWER_LOST and not entry.over:
                cluster.replied(entry.number, 202)
        if fault == ANSWER_LOST:
            self._later(_SILENT_S, self._again, where)
        else:
            self._later(cluster.delay(), self._answered, where, batch, None)

    def _later(self, delay_s: float, call: Any, *args: Any) -> None:
        def inside() -> None:
            if not self._loop.dead:
                self._loop.call_soon(call, *args)

        self._cluster.world.scheduler.after(delay_s, inside)

    def _answered(self, where: Partition, batch: list[Entry], fault: KafkaFault | None) -> None:
        for entry in batch:
            if fault is None and entry.number >= 0 and not entry.over:
                self._cluster.world.heard(entry.number)
            self._end(entry, fault)
        self._again(where)

    def _expire(self, where: Partition, entry: Entry) -> None:
        if not entry.over:
            self._cluster.replied(entry.number, None, "kafka-produce")
            self._end(entry, KafkaFault(f"no acknowledgement within {self._timeout_s:g} s"))

    def _end(self, entry: Entry, fault: KafkaFault | None) -> None:
        if entry.over:
            return
        entry.over = True
        self._records -= 1
        self._bytes -= entry.size
        entry.done(fault)
