"""Two requests to a local broker in Kafka's own protocol (kafka.apache.org/protocol), so that no client library is
needed."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from contextlib import suppress

from gateway_core.contract.errors import StartError

_METADATA, _CREATE_TOPICS = 3, 19
_EXISTS = 36
_TIMEOUT_S = 30.0


def answers(port: int) -> bool:
    """Whether a broker responds on this port and accepts clients."""
    with suppress(OSError, struct.error):
        # Metadata version 4: of no topics, and without creating any
        body = _ask(port, _METADATA, 4, struct.pack(">i?", 0, False), 2.0)
        return bool(struct.unpack_from(">ii", body)[1])  # throttle time, number of brokers
    return False


def create_topic(port: int, name: str, partitions: int, settings: Mapping[str, str]) -> bool:
    """Creates a topic; False if it already exists. Raises `StartError` with the broker's message."""
    configs = b"".join(_string(k) + _string(v) for k, v in settings.items())
    topic = _string(name) + struct.pack(">ihi", partitions, 1, 0) + struct.pack(">i", len(settings)) + configs
    request = struct.pack(">i", 1) + topic + struct.pack(">i?", int(_TIMEOUT_S * 1000), False)
    try:
        body = _ask(port, _CREATE_TOPICS, 2, request, _TIMEOUT_S)
        # throttle time, number of topics, the topic's name
        at = 10 + struct.unpack_from(">h", body, 8)[0]
        code, size = struct.unpack_from(">hh", body, at)
    except (OSError, struct.error) as e:
        raise StartError(f"can't create the topic {name}: {e}") from e
    if code in (0, _EXISTS):
        return bool(code == 0)
    said = body[at + 4 : at + 4 + size].decode(errors="replace") if size > 0 else f"error {code}"
    raise StartError(f"can't create the topic {name}: {said}")


def _ask(port: int, api: int, version: int, request: bytes, timeout_s: float) -> bytes:
    """The body of the response to one request (request header version 1, without client id)."""
    message = struct.pack(">hhih", api, version, 1, -1) + request
    with socket.create_connection(("127.0.0.1", port), timeout_s) as s:
        s.sendall(struct.pack(">i", len(message)) + message)
        with s.makefile("rb") as answer:
            (size,) = struct.unpack(">i", answer.read(4))
            return answer.read(size)[4:]  # without the correlation id


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
