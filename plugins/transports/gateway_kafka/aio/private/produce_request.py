"""A ProduceRequest that `AIOKafkaConnection.send` takes in place of aiokafka's.

aiokafka encodes and decodes by schemas, which takes 14 us for a request with one batch. A response that reports an
error, and any other version of the protocol, is left to it.
"""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

from aiokafka.protocol.produce import ProduceRequest

_VERSIONS = range(5, 8)  # those that this request and this response are for
_HEADER = struct.Struct(">hhih")  # API key, version, correlation id, length of the client id
_BODY = struct.Struct(">hhii")  # transactional id (null), acks, time-out, number of topics
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_TWO = struct.Struct(">ii")
_RESULT = struct.Struct(">ihqqq")  # partition, error code, offset, timestamp, start of the log

Topics = list[tuple[str, list[tuple[int, bytes | bytearray]]]]
"""Topics with the numbers of their partitions, and a batch for each."""


class AllWritten:
    """The response to a request of which the broker has written each batch. `batches` is their number."""

    __slots__ = ("batches",)

    def __init__(self, batches: int) -> None:
        self.batches = batches


class FastProduceRequest:
    """Without a transaction. Its response is `AllWritten` or aiokafka's."""

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
