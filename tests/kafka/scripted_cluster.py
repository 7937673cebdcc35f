"""Kafka brokers that do what a script says: answer with an error, fall silent, or close a connection, before or after
they have stored a batch. They check sequence numbers as Kafka does (KIP-98), and speak what a producer needs."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal, Self

from aiokafka.protocol import produce
from aiokafka.protocol.admin import ApiVersionResponse_v0
from aiokafka.protocol.metadata import MetadataRequest_v1, MetadataResponse_v1
from aiokafka.protocol.transaction import InitProducerIdResponse_v0
from aiokafka.record.default_records import DefaultRecordBatch

from tests.loop_thread import run_to_the_end

NOT_LEADER, OUT_OF_ORDER, DUPLICATE = 6, 45, 46
_PRODUCE, _METADATA, _API_VERSIONS, _INIT_PRODUCER_ID = 0, 3, 18, 22
_REMEMBERED = 5  # batches of a producer that a broker knows as duplicates

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one ProduceRequest. `code` is the error of its partitions, or of the `first` only. `stored` says
    whether the batches are written all the same. With `moves`, the other broker leads its partitions from then on."""

    code: int = 0
    stored: bool = False
    then: Literal["answer", "close", "silence", "garbage", "other correlation id"] = "answer"
    first: bool = False
    moves: bool = False
    delay_s: float = 0.0
    throttle_ms: int = 0


class ScriptedCluster:
    """Two brokers on 127.0.0.1, in a thread. Any topic exists, with `partitions` partitions. `script` says what happens
    to the n-th ProduceRequest, counted from 0; None: nothing special."""

    def __init__(
        self, script: Callable[[int], Fault | None] = lambda number: None, *, partitions: int = 4, version: int = 7
    ) -> None:
        self.script = script
        self.requests: list[tuple[int, list[Partition]]] = []
        """The ProduceRequests: the broker and the partitions of each."""
        self.log: dict[Partition, list[tuple[bytes | None, bytes | None]]] = defaultdict(list)
        """Keys and values of the records."""
        self.producers = 0
        """How many producer ids were handed out."""
        self._partitions = partitions
        self._version = version
        self._moved: set[Partition] = set()
        self._sequences: dict[tuple[Partition, int], list[tuple[int, int, int]]] = {}
        self._ports: dict[int, int] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="scripted cluster", daemon=True)
        self._listens = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listens.wait(60)
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    def leader(self, partition: Partition) -> int:
        return (partition[1] + (partition in self._moved)) % 2

    # -- connections -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        servers = []
        for node in (0, 1):
            begin = asyncio.start_server(
                lambda reader, writer, node=node: self._serve(node, reader, writer), "127.0.0.1"
            )
            servers.append(self._loop.run_until_complete(begin))
            self._ports[node] = servers[-1].sockets[0].getsockname()[1]
        self._listens.set()
        run_to_the_end(self._loop, *servers)

    async def _serve(self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                body = BytesIO(await reader.readexactly(size))
                api, version, correlation, client = struct.unpack(">hhih", body.read(10))
                assert body.read(client) == b"tidegate"
                answer = await self._answer(node, api, version, body)
                if isinstance(answer, bytes):
                    writer.write(struct.pack(">ii", len(answer) + 4, correlation) + answer)
                elif answer == "other correlation id":
                    writer.write(struct.pack(">ii", 4, correlation + 7))
                elif answer == "garbage":
                    writer.write(struct.pack(">iii", 8, correlation, 1))
                elif answer == "silence":
                    await asyncio.sleep(3600)
                else:
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(self, node: int, api: int, version: int, body: BytesIO) -> bytes | str:
        if api == _API_VERSIONS:
            known = [(_PRODUCE, 3, self._version), (_METADATA, 0, 1), (_API_VERSIONS, 0, 0), (_INIT_PRODUCER_ID, 0, 0)]
            return bytes(ApiVersionResponse_v0(0, known).encode())
        if api == _METADATA:
            assert version == 1
            return self._metadata(MetadataRequest_v1.decode(body).topics or [])
        if api == _INIT_PRODUCER_ID:
            self.producers += 1
            return bytes(InitProducerIdResponse_v0(0, 0, self.producers, 0).encode())
        assert api == _PRODUCE
        assert version == self._version
        return await self._produce(node, getattr(produce, f"ProduceRequest_v{version}").decode(body))

    def _metadata(self, topics: list[str]) -> bytes:
        brokers = [(node, "127.0.0.1", port, None) for node, port in self._ports.items()]
        found = [
            (0, topic, False, [(0, n, self.leader((topic, n)), [0, 1], [0, 1]) for n in range(self._partitions)])
            for topic in topics
        ]
        return bytes(MetadataResponse_v1(brokers, 0, found).encode())

    # -- batches -----------------------------------------------------------------------------------------------------

    async def _produce(self, node: int, request: Any) -> bytes | str:
        assert (request.transactional_id, request.required_acks) == (None, -1)
        batches = [((topic, number), data) for topic, parts in request.topics for number, data in parts]
        self.requests.append((node, [partition for partition, _ in batches]))
        fault = self.script(len(self.requests) - 1) or Fault()
        await asyncio.sleep(fault.delay_s)
        answers: dict[str, list[tuple[int, ...]]] = defaultdict(list)
        for place, (partition, data) in enumerate(batches):
            code, offset = NOT_LEADER, -1
            hit = not (fault.first and place)
            if self.leader(partition) == node and (not hit or not fault.code or fault.stored):
                code, offset = self._store(partition, data)
            if hit and fault.code:
                code, offset = fault.code, -1
            answers[partition[0]].append((partition[1], code, offset, -1) + ((0,) if self._version >= 5 else ()))
            if hit and fault.moves:
                self._moved ^= {partition}
        if fault.then != "answer":
            return fault.then
        response = getattr(produce, f"ProduceResponse_v{self._version}")
        return bytes(response(list(answers.items()), fault.throttle_ms).encode())

    def _store(self, partition: Partition, data: bytes) -> tuple[int, int]:
        batch = DefaultRecordBatch(data)
        assert batch.validate_crc()
        assert batch.producer_id > 0
        known = self._sequences.setdefault((partition, batch.producer_id), [])
        first, count = batch.base_sequence, batch.last_offset_delta + 1
        for sequence, records, offset in known[-_REMEMBERED:]:
            if (sequence, records) == (first, count):
                return 0, offset
        expected = known[-1][0] + known[-1][1] if known else 0
        if first != expected:
            return (DUPLICATE if first < expected else OUT_OF_ORDER), -1
        offset = len(self.log[partition])
        known.append((first, count, offset))
        self.log[partition] += [(record.key, record.value) for record in batch]
        return 0, offset
