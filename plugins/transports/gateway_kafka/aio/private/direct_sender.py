"""Sends batches over aiokafka's connection in the same turn of the event loop.

aiokafka's sender takes 13 callbacks in 10 turns of the loop for a request: its task drains the accumulator, another
task sends, and both are woken for the response. Here the request is written at once, and one callback takes the
response. What decides about order and duplicates stays aiokafka's: a batch gets its sequence numbers from the same
accumulator, the broker and the partitions count as busy for aiokafka's own task too, and whatever is not a plain
success (an error, a time-out, a lost connection) goes to aiokafka's own handler, which sends the same batch again.

The request is our own, too: aiokafka encodes and decodes by schemas, which takes 14 us for a request with one batch. A
response that reports an error, and any other version of the protocol, is left to it.

After any error that is not Kafka's, the same batch and all that follow go through aiokafka's task.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Sequence
from functools import partial
from io import BytesIO
from typing import Any

from aiokafka.client import ConnectionGroup
from aiokafka.conn import CloseReason
from aiokafka.errors import KafkaConnectionError, KafkaError, ProducerClosed, RequestTimedOutError
from aiokafka.producer.message_accumulator import MessageBatch
from aiokafka.producer.sender import SendProduceReqHandler
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.structs import TopicPartition

from ..needs import Ended, Outgoing

_log = logging.getLogger("tidegate.kafka")
_VERSIONS = range(5, 8)  # those that this request and this response are for
_HEADER = struct.Struct(">hhih")  # API key, version, correlation id, length of the client id
_BODY = struct.Struct(">hhii")  # transactional id (null), acks, time-out, number of topics
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_TWO = struct.Struct(">ii")
_RESULT = struct.Struct(">ihqqq")  # partition, error code, offset, timestamp, start of the log

Topics = list[tuple[str, list[tuple[int, bytes | bytearray]]]]
"""Topics with the numbers of their partitions, and a batch for each."""


class DirectSender:
    """For one aiokafka producer: idempotent, without transactions, with acks of all replicas. `allowed` is false if
    aiokafka has to send everything itself."""

    def __init__(self, producer: Any, allowed: bool = True) -> None:
        self.allowed = allowed
        self._client = producer.client
        self._sender = producer._sender
        self._accumulator = producer._message_accumulator
        self._timeout_s = producer._request_timeout_ms / 1000
        self._requests: dict[int, _Request] = {}  # in flight, by broker
        self._handed_back: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def ready(self, broker: int) -> bool:
        """Whether a request can be written at once: aiokafka is connected to this broker, waits for no response of it,
        and has no batch in its queues, which would have to come first."""
        sender, accumulator = self._sender, self._accumulator
        if not self.allowed or broker in sender._in_flight or accumulator._batches or accumulator._closed:
            return False
        if sender.sender_task is None or sender.sender_task.done() or not sender._txn_manager.has_pid():
            return False
        connection = self._client._conns.get((broker, ConnectionGroup.DEFAULT))
        return connection is not None and bool(connection.connected())

    def free(self, partition: TopicPartition) -> bool:
        """Whether aiokafka has no batch of this partition in flight or waiting for its retry."""
        return partition not in self._sender._muted_partitions

    def send(self, broker: int, outgoing: Sequence[Outgoing]) -> None:
        """Sends these batches in one request to a broker that is ready, and leads their partitions, which are free."""
        request = _Request(broker)
        try:
            self._begin(request, outgoing)
            connection = request.connection = self._client._conns[broker, ConnectionGroup.DEFAULT]
            connection.send(self._produce_request(request)).close()  # the coroutine would wait for the response
            response = connection._requests[-1][2]
        except Exception as error:
            self._hand_back(request, None, error if isinstance(error, KafkaError) else self._unexpected(error))
            return
        loop = asyncio.get_running_loop()
        request.deadline = loop.time() + self._timeout_s
        request.response = response
        self._requests[broker] = request
        response.add_done_callback(partial(self._answered, request))
        if self._timer is None:
            self._timer = loop.call_at(request.deadline, self._time_out)

    def _begin(self, request: _Request, outgoing: Sequence[Outgoing]) -> None:
        """The batches take their sequence numbers; the broker and the partitions are busy from now on."""
        sender, accumulator = self._sender, self._accumulator
        for partition, builder, ended in outgoing:
            batch = MessageBatch(partition, builder, accumulator._batch_ttl, accumulator._linger_time)
            batch.future.add_done_callback(partial(_tell, ended))
            request.batches[partition] = batch
            request.ended.append(ended)
        sender._in_flight.add(request.broker)
        sender._muted_partitions.update(request.batches)
        for partition, batch in request.batches.items():
            accumulator._batches[partition].append(batch)
            accumulator._pop_batch(partition)

    def _produce_request(self, request: _Request) -> FastProduceRequest:
        topics: dict[str, list[tuple[int, bytes | bytearray]]] = {}
        for partition, batch in request.batches.items():
            topics.setdefault(partition.topic, []).append((partition.partition, batch.get_data_buffer()))
        sender = self._sender
        return FastProduceRequest(sender._acks, sender._request_timeout_ms, list(topics.items()))

    def _answered(self, request: _Request, future: asyncio.Future[Any]) -> None:
        del self._requests[request.broker]
        if future.cancelled():
            self._hand_back(request, None, RequestTimedOutError())
        elif (error := future.exception()) is not None:
            self._hand_back(request, None, error)
        elif not (isinstance(response := future.result(), AllWritten) and response.batches == len(request.batches)):
            self._hand_back(request, response, None)
        else:
            for batch in request.batches.values():
                batch.done_noack()
            self._release(request)
            for ended in request.ended:
                ended(None)

    def _release(self, request: _Request) -> None:
        """The broker and the partitions are no longer busy."""
        sender, accumulator = self._sender, self._accumulator
        sender._in_flight.discard(request.broker)
        sender._muted_partitions.difference_update(request.batches)
        if accumulator._batches and not accumulator.waiter().done():
            accumulator.waiter().set_result(None)  # wakes aiokafka's task, which has kept back batches for this broker

    # -- what is not a plain success --------------------------------------------------------------------------------

    def _hand_back(self, request: _Request, response: Any, error: BaseException | None) -> None:
        """Does what aiokafka does with this response or error."""
        if self._closed:
            return
        if self._sender.sender_task.done():
            self._fail(request, ProducerClosed())
            return
        task = asyncio.get_running_loop().create_task(self._as_aiokafka(request, response, error))
        self._handed_back.add(task)
        task.add_done_callback(self._handed_back.discard)

    async def _as_aiokafka(self, request: _Request, response: Any, error: BaseException | None) -> None:
        handler = SendProduceReqHandler(self._sender, request.batches)
        handler._client = _KnownOutcome(self._client, response, error)
        try:
            await handler.do(request.broker)
        except Exception as unexpected:
            self._fail(request, self._unexpected(unexpected))
        else:
            self._release(request)

    def _unexpected(self, error: Exception) -> KafkaError:
        """From now on aiokafka's task sends everything. Whether the batch was sent is not known."""
        self.allowed = False
        _log.error("the Kafka producer: unexpected error; aiokafka sends from now on", exc_info=error)
        return KafkaConnectionError(str(error))

    def _fail(self, request: _Request, error: Exception) -> None:
        for batch in request.batches.values():
            if not batch.future.done():
                batch.failure(error)
        self._release(request)

    def _time_out(self) -> None:
        """Gives up requests that take too long, with their connections. One timer is enough: all have the same time."""
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for request in list(self._requests.values()):
            if request.deadline > now:
                self._timer = self._timer or loop.call_at(request.deadline, self._time_out)
            elif not request.response.done():
                request.response.set_exception(RequestTimedOutError())
                request.connection.close(reason=CloseReason.CONNECTION_TIMEOUT)

    async def close(self) -> None:
        """Forgets what is in flight."""
        self.allowed, self._closed = False, True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._handed_back)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Request:
    """A request in flight."""

    __slots__ = ("batches", "broker", "connection", "deadline", "ended", "response")

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.deadline = 0.0
        self.batches: dict[TopicPartition, MessageBatch] = {}
        self.ended: list[Ended] = []
        self.connection: Any = None
        self.response: Any = None


class _KnownOutcome:
    """aiokafka's client, for a handler whose request was answered or has failed already."""

    def __init__(self, client: Any, response: Any, error: BaseException | None) -> None:
        self._client = client
        self._response = response
        self._error = error

    async def send(self, node_id: int, request: object) -> Any:
        if self._error is not None:
            raise self._error
        return self._response

    def force_metadata_update(self) -> Any:
        return self._client.force_metadata_update()

    async def _maybe_wait_metadata(self) -> None:
        await self._client._maybe_wait_metadata()


def _tell(ended: Ended, future: asyncio.Future[Any]) -> None:
    ended(ProducerClosed() if future.cancelled() else future.exception())


# -- the request and its response ------------------------------------------------------------------------------------


class AllWritten:
    """The response to a request of which the broker has written each batch. `batches` is their number."""

    __slots__ = ("batches",)

    def __init__(self, batches: int) -> None:
        self.batches = batches


class FastProduceRequest:
    """A ProduceRequest that `AIOKafkaConnection.send` takes in place of aiokafka's. Without a transaction. Its response
    is `AllWritten` or aiokafka's."""

    def __init__(self, acks: int, timeout_ms: int, topics: Topics) -> None:
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._topics = topics

    def prepare(self, versions: dict[int, tuple[int, int]]) -> Any:
        """The request in the newest version that both sides know."""
        request = ProduceRequest(None, self._acks, self._timeout_ms, self._topics).prepare(versions)
        if request.API_VERSION not in _VERSIONS:
            return request
        return _Prepared(request, _BODY.pack(-1, self._acks, self._timeout_ms, len(self._topics)), self._topics)


class _Prepared:
    """What the connection needs to know of a request in one version."""

    def __init__(self, request: Any, head: bytes, topics: Topics) -> None:
        self.RESPONSE_TYPE = _ResponseType(request)
        self._request = request
        self._head = head
        self._topics = topics

    def build_request_header(self, correlation_id: int, client_id: str) -> _Encoded:
        name = client_id.encode()
        return _Encoded(_HEADER.pack(0, self._request.API_VERSION, correlation_id, len(name)) + name)

    def encode(self) -> bytes:
        parts: list[bytes | bytearray] = [self._head]
        for topic, partitions in self._topics:
            name = topic.encode()
            parts += (_SHORT.pack(len(name)), name, _INT.pack(len(partitions)))
            for partition, batch in partitions:
                parts += (_TWO.pack(partition, len(batch)), batch)
        return b"".join(parts)

    def parse_response_header(self, stream: BytesIO) -> _ResponseHeader:
        (correlation_id,) = _INT.unpack(stream.read(4))
        return _ResponseHeader(correlation_id)


class _Encoded:
    __slots__ = ("_bytes",)

    def __init__(self, encoded: bytes) -> None:
        self._bytes = encoded

    def encode(self) -> bytes:
        return self._bytes


class _ResponseHeader:
    __slots__ = ("correlation_id",)

    def __init__(self, correlation_id: int) -> None:
        self.correlation_id = correlation_id


class _ResponseType:
    """Decodes the responses to a request."""

    __slots__ = ("_request",)

    def __init__(self, request: Any) -> None:
        self._request = request

    def decode(self, stream: BytesIO) -> Any:
        data = stream.read()
        count = _written(data)
        return self._request.RESPONSE_TYPE.decode(BytesIO(data)) if count is None else AllWritten(count)


def _written(data: bytes) -> int | None:
    """How many batches were written, or None if there is anything else in this response."""
    try:
        (topics,) = _INT.unpack_from(data)
        at, count = 4, 0
        for _ in range(topics):
            at += 2 + _SHORT.unpack_from(data, at)[0]
            (partitions,) = _INT.unpack_from(data, at)
            at += 4
            for _ in range(partitions):
                if _RESULT.unpack_from(data, at)[1]:
                    return None
                at += _RESULT.size
            count += partitions
    except struct.error:
        return None
    return count if at + 4 == len(data) else None  # the throttle time comes last
