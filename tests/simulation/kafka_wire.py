"""A broker of the simulated Kafka cluster that speaks Kafka's protocol, for the plugin's own producer on aiokafka.

It answers four kinds of requests, as a broker of one node does: versions, metadata, a producer id, and produce requests
of idempotent producers, whose sequence numbers it checks (KIP-98).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

import gateway_kafka.aio.producer  # noqa: F401 - before a run, so that its names lead to the simulation
from aiokafka.protocol.admin import ApiVersionRequest_v0, ApiVersionResponse_v0
from aiokafka.protocol.metadata import MetadataRequest_v5, MetadataResponse_v5
from aiokafka.protocol.produce import ProduceRequest_v7, ProduceResponse_v7
from aiokafka.protocol.transaction import InitProducerIdRequest_v0, InitProducerIdResponse_v0
from aiokafka.record import MemoryRecords
from gateway_kafka.client import Partition

from .kafka_producer import ANSWER_LOST, LOST, REFUSED, TOO_LARGE
from .network import END, Connection, Endpoint

if TYPE_CHECKING:
    from .kafka_cluster import Cluster

HOST, PORT = "127.0.0.1", 9092
_VERSIONS = ((0, 7, 7), (3, 5, 5), (18, 0, 0), (22, 0, 0))
"""API keys with their lowest and highest version."""
_REQUESTS = {0: ProduceRequest_v7, 3: MetadataRequest_v5, 18: ApiVersionRequest_v0, 22: InitProducerIdRequest_v0}
_HEADER = struct.Struct(">hhih")
_NONE, _UNKNOWN_TOPIC, _TOO_LARGE, _NOT_ENOUGH_REPLICAS, _OUT_OF_ORDER = 0, 3, 10, 19, 45
_BATCH = struct.Struct(">qiibIhiqqqhii")
"""What a batch begins with, up to the number of its records."""


class WireBroker:
    """`network.Host`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._producers = 0
        self._sequences: dict[tuple[int, str, int], tuple[int, list[int]]] = {}
        """The next sequence number of a producer in a partition of a topic, and the arrivals of its last batch."""
        cluster.world.network.hosts[HOST] = self

    def accept(self) -> Endpoint | str:
        """See `network.Host`."""
        return "vanish" if self.cluster.away else _Client(self)

    def new_producer(self) -> int:
        """A producer id."""
        self._producers += 1
        return self._producers

    def write(self, where: Partition, batch: bytes) -> tuple[int, int, list[int]]:
        """Writes a batch once, however often it comes. Returns the error code, the first offset, and the numbers of the
        arrivals that its records are."""
        topic = self.cluster.topics.get(where[0])
        if topic is None:
            return _UNKNOWN_TOPIC, -1, []
        head = _BATCH.unpack_from(batch)
        producer, sequence, count = head[9], head[11], head[12]
        key = producer, topic.id, where[1]
        expected, before = self._sequences.get(key, (0, []))
        if sequence + count == expected:
            return _NONE, self.cluster.log(where).end - count, before
        if sequence != expected:
            return _OUT_OF_ORDER, -1, []
        offset, numbers = self.cluster.log(where).end, []
        records = MemoryRecords(batch)
        while (found := records.next_batch()) is not None:
            for record in found:
                headers = [(name, bytes(value or b"")) for name, value in record.headers]
                value = None if record.value is None else bytes(record.value)
                keyed = None if record.key is None else bytes(record.key)
                numbers.append(self.cluster.write(where, keyed, value, headers, by=self.cluster.world.generation))
        self._sequences[key] = sequence + count, numbers
        return _NONE, offset, numbers


class _Client:
    """`network.Endpoint`: a connection of a producer. Requests are answered in their order."""

    def __init__(self, broker: WireBroker) -> None:
        self._broker = broker
        self._cluster = broker.cluster
        self._buffer = b""
        self._connection: Connection | None = None
        self._free_at = 0.0

    def opened(self, connection: Connection) -> None:
        """See `network.Endpoint`."""
        self._connection = connection
        connection.heard = self._cluster.world.heard

    def ended(self, how: str) -> None:
        """See `network.Endpoint`."""
        if how == END and self._connection is not None:
            self._connection.end()
        self._connection = None

    def received(self, data: bytes) -> None:
        """See `network.Endpoint`."""
        self._buffer += data
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < end:
                return
            request, self._buffer = self._buffer[4:end], self._buffer[end:]
            self._in_turn(self._request, request)

    def _in_turn(self, call: Callable[..., None], *args: Any) -> None:
        """After a while, and never before what was asked before."""
        scheduler = self._cluster.world.scheduler
        self._free_at = max(self._free_at, scheduler.now + self._cluster.delay())
        scheduler.at(self._free_at, call, *args)

    def _request(self, data: bytes) -> None:
        if self._cluster.away:
            return  # nobody answers
        key, _, correlation, length = _HEADER.unpack_from(data)
        kind = _REQUESTS[key]
        request = kind.decode(BytesIO(data[_HEADER.size + length :]))
        if kind is ProduceRequest_v7:
            self._produce(correlation, request)
        elif kind is MetadataRequest_v5:
            self._answer(correlation, self._metadata(request))
        elif kind is InitProducerIdRequest_v0:
            self._answer(correlation, InitProducerIdResponse_v0(0, _NONE, self._broker.new_producer(), 0))
        else:
            self._answer(correlation, ApiVersionResponse_v0(_NONE, _VERSIONS))

    def _metadata(self, request: Any) -> Any:
        known = self._cluster.topics
        names = list(known) if request.topics is None else list(request.topics)
        topics = []
        for name in names:
            found = known.get(name)
            numbers = range(len(found.logs) if found is not None else 0)
            partitions = [(0, number, 0, [0], [0], list[int]()) for number in numbers]
            topics.append((_NONE if found is not None else _UNKNOWN_TOPIC, name, False, partitions))
        return MetadataResponse_v5(0, [(0, HOST, PORT, None)], "simulated", 0, topics)

    def _produce(self, correlation: int, request: Any) -> None:
        fault = self._cluster.lasts("kafka-produce")
        if fault == LOST:
            self._break()
            return
        refused = {REFUSED: _NOT_ENOUGH_REPLICAS, TOO_LARGE: _TOO_LARGE}.get(-1 if fault is None else fault)
        answers, arrived = [], list[int]()
        for name, partitions in request.topics:
            results = []
            for partition, batch in partitions:
                code, offset, numbers = refused or 0, -1, list[int]()
                if not code:
                    code, offset, numbers = self._broker.write((name, partition), batch)
                arrived += numbers
                results.append((partition, code, offset, -1, 0))
            answers.append((name, results))
        if fault == ANSWER_LOST:
            self._break()
            return
        for number in arrived:
            self._cluster.replied(number, 202)
        self._answer(correlation, ProduceResponse_v7(answers, 0), arrived)

    def _break(self) -> None:
        if self._connection is not None:
            self._connection.reset()
            self._connection = None

    def _answer(self, correlation: int, response: Any, arrived: list[int] | None = None) -> None:
        if self._connection is not None:
            body = correlation.to_bytes(4, "big") + response.encode()
            self._connection.send(len(body).to_bytes(4, "big") + body)
            for number in arrived or ():
                if number >= 0:
                    self._connection.mark(number)
