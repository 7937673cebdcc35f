"""The bytes of a message in AMQP 0-9-1: the frames of `basic.publish` and `basic.deliver`, its properties and headers.

All other methods are read and written by pamqp. These are the ones that every event needs, so they are written here for
speed. Source: AMQP 0-9-1 specification, sections 2.3.5 (frames), 4.2.5 (fields) and 4.2.6 (content), with RabbitMQ's
types of fields (https://www.rabbitmq.com/amqp-0-9-1-errata.html, section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from struct import Struct, error
from typing import Any

from pamqp import decode

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
"""The types of frames."""
FRAME_END = 0xCE
OVERHEAD = 8
"""Bytes of a frame besides its payload."""
MOST_DEPTH = 32
"""The most tables and arrays in one another in a header's value."""
_SIZED = b"SAFx"
"""The types of fields that begin with their size."""
PING = b"\x08\x00\x00\x00\x00\x00\x00\xce"

FRAME = Struct(">BHI")
_HEADER = Struct(">HHQH")
_ACK = Struct(">BHIIQBB")
_NACK = Struct(">BHIIQBB")
_LONG = Struct(">I")
_LONGLONG = Struct(">Q")

_PUBLISH = b"\x00\x3c\x00\x28\x00\x00"  # basic.publish and its reserved field
_ACK_METHOD, _NACK_METHOD = 0x003C0050, 0x003C0078
_BASIC = 60

_CONTENT_TYPE, _HEADERS, _DELIVERY_MODE, _MESSAGE_ID, _TIMESTAMP = 1 << 15, 1 << 13, 1 << 12, 1 << 7, 1 << 6
_SHORT = (  # the properties that are short strings, in the order in which they are written
    ("content_encoding", 1 << 14),
    ("correlation_id", 1 << 10),
    ("reply_to", 1 << 9),
    ("expiration", 1 << 8),
    ("message_id", _MESSAGE_ID),
    ("type", 1 << 5),
    ("user_id", 1 << 4),
    ("app_id", 1 << 3),
)
_RARE = sum(flag for _, flag in _SHORT) | _TIMESTAMP | 1 << 11 | 1 << 2
_SHORT_FLAGS = dict(_SHORT)


class Content:
    """A message as it came: `content_type` ("" if it has none), `headers` by name, `body`, and the other `properties`.
    A header's value is bytes if it is a string; else what its type is in Python, a bytearray for binary data.
    `delivery_tag` is the channel's number for it, `fault` says what of it could not be read ("" if all could)."""

    __slots__ = (
        "body", "content_type", "delivery_tag", "exchange", "fault", "headers", "properties", "redelivered",
        "routing_key",
    )  # fmt: skip

    def __init__(
        self,
        body: bytes = b"",
        headers: dict[bytes, Any] | None = None,
        content_type: str = "",
        properties: dict[str, Any] | None = None,
        *,
        exchange: str = "",
        routing_key: str = "",
        delivery_tag: int = 0,
        redelivered: bool = False,
    ) -> None:
        self.body = body
        self.headers = {} if headers is None else headers
        self.content_type = content_type
        self.properties = {} if properties is None else properties
        self.exchange = exchange
        self.routing_key = routing_key
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.fault = ""


# -- writing ----------------------------------------------------------------------------------------------------------


def publish_method(channel: int, exchange: str, routing_key: str, mandatory: bool) -> bytes:
    """The frame of the method `basic.publish`. Both names have at most 255 bytes."""
    payload = b"".join((_PUBLISH, short(exchange), short(routing_key), b"\x01" if mandatory else b"\x00"))
    return FRAME.pack(METHOD, channel, len(payload)) + payload + b"\xce"


def properties(
    content_type: bytes, headers: Sequence[tuple[bytes, bytes]], persistent: bool, message_id: bytes
) -> bytes:
    """The properties of a message. All headers are strings; names, the content type and the id have at most 255
    bytes. An empty content type or id is left out."""
    table = b"".join([bytes((len(n),)) + n + b"S" + _LONG.pack(len(v)) + v for n, v in headers])
    flags = _HEADERS | _DELIVERY_MODE
    parts = [b"", b""]
    if content_type:
        flags |= _CONTENT_TYPE
        parts[1] = bytes((len(content_type),)) + content_type
    parts += (_LONG.pack(len(table)), table, b"\x02" if persistent else b"\x01")
    if message_id:
        flags |= _MESSAGE_ID
        parts += (bytes((len(message_id),)), message_id)
    parts[0] = flags.to_bytes(2, "big")
    return b"".join(parts)


def content(channel: int, properties: bytes, body: bytes, most: int) -> bytes:
    """The frames of a message's header and body; `most` is the limit for a body frame's payload."""
    size = len(body)
    head = b"\x00\x3c\x00\x00" + _LONGLONG.pack(size) + properties
    parts = [FRAME.pack(HEADER, channel, len(head)), head, b"\xce"]
    for start in range(0, size, most):
        part = body if size <= most else body[start : start + most]
        parts += (FRAME.pack(BODY, channel, len(part)), part, b"\xce")
    return b"".join(parts)


def ack(channel: int, tag: int, multiple: bool) -> bytes:
    """The frame of `basic.ack`."""
    return _ACK.pack(METHOD, channel, 13, _ACK_METHOD, tag, multiple, FRAME_END)


def nack(channel: int, tag: int, requeue: bool) -> bytes:
    """The frame of `basic.nack` for one message."""
    return _NACK.pack(METHOD, channel, 13, _NACK_METHOD, tag, requeue << 1, FRAME_END)


def short(text: str) -> bytes:
    """A short string. Raises `ValueError` if it has more than 255 bytes."""
    encoded = text.encode()
    return bytes((len(encoded),)) + encoded


# -- reading ----------------------------------------------------------------------------------------------------------


def delivery(payload: bytes) -> tuple[int, bool, str, str]:
    """Delivery tag, whether it is redelivered, exchange and routing key of `basic.deliver` (its consumer tag is not
    needed: a channel has one consumer). Raises `ValueError`."""
    at = 5 + payload[4]
    tag = int.from_bytes(payload[at : at + 8], "big")
    redelivered = payload[at + 8] & 1 == 1
    end = at + 10 + payload[at + 9]
    exchange, key = payload[at + 10 : end], payload[end + 1 : end + 1 + payload[end]]
    return tag, redelivered, exchange.decode("utf-8", "replace"), key.decode("utf-8", "replace")


def read_header(payload: bytes, into: Content) -> int:
    """Reads a content header; returns the size of the body. If only that can be read, `into.fault` says why. Raises
    `ValueError` if not even that can."""
    if len(payload) < 14:
        raise ValueError("a content header is too short")
    _, _, size, flags = _HEADER.unpack_from(payload)
    try:
        _read_properties(payload, flags, into)
    except (error, IndexError, ValueError) as e:
        into.fault = f"its properties are damaged: {e}"
    return int(size)


def _read_properties(payload: bytes, flags: int, into: Content) -> None:
    at = 14
    if flags & 1:
        raise ValueError("unknown properties")
    if flags & _CONTENT_TYPE:
        end = at + 1 + payload[at]
        into.content_type = payload[at + 1 : end].decode("utf-8", "replace")
        at = end
    if flags & 1 << 14:
        at = _short_property(payload, at, "content_encoding", into)
    if flags & _HEADERS:
        (length,) = _LONG.unpack_from(payload, at)
        into.headers = table(payload, at + 4, at + 4 + length)
        at += 4 + length
    if flags & _DELIVERY_MODE:
        at += 1
    if flags & _RARE:
        _read_rare(payload, at, flags, into)


def _read_rare(payload: bytes, at: int, flags: int, into: Content) -> None:
    if flags & 1 << 11:
        into.properties["priority"] = payload[at]
        at += 1
    for name in ("correlation_id", "reply_to", "expiration", "message_id"):
        if flags & _SHORT_FLAGS[name]:
            at = _short_property(payload, at, name, into)
    if flags & _TIMESTAMP:
        (into.properties["timestamp"],) = _LONGLONG.unpack_from(payload, at)
        at += 8
    for name in ("type", "user_id", "app_id"):
        if flags & _SHORT_FLAGS[name]:
            at = _short_property(payload, at, name, into)


def _short_property(payload: bytes, at: int, name: str, into: Content) -> int:
    end = at + 1 + payload[at]
    into.properties[name] = payload[at + 1 : end].decode("utf-8", "replace")
    return end


def table(payload: bytes, at: int, end: int) -> dict[bytes, Any]:
    """A table of fields. Strings are bytes; tables and arrays are dicts and lists. Raises `ValueError`."""
    if end > len(payload):
        raise ValueError("a table is longer than its frame")
    found: dict[bytes, Any] = {}
    size_of = _LONG.unpack_from
    while at < end:
        start = at + 1
        at = start + payload[at]
        name = payload[start:at]
        if payload[at] == 83:  # S: nearly all are strings
            start = at + 5
            at = start + size_of(payload, at + 1)[0]
            found[name] = payload[start:at]
        else:
            used, found[name] = _field(payload, at)
            at += used
    if at != end:
        raise ValueError("a table's last field is longer than the table")
    return found


def _field(payload: bytes, at: int, depth: int = 0) -> tuple[int, Any]:
    """A field of any type: the bytes that it takes, and its value."""
    kind = payload[at]
    if kind == 84:  # T: pamqp fails for years that a datetime can't have
        (seconds,) = _LONGLONG.unpack_from(payload, at + 1)
        return 9, timestamp(seconds)
    if kind in _SIZED:  # pamqp copies the rest of the table for each of their fields, and has no limit for the depth
        (size,) = _LONG.unpack_from(payload, at + 1)
        start, stop = at + 5, at + 5 + size
        if stop > len(payload):
            raise ValueError("a header's value is longer than its frame")
        if kind == 83:
            return 5 + size, payload[start:stop].decode("utf-8", "replace")
        if kind == 120:
            return 5 + size, bytearray(payload[start:stop])
        if depth == MOST_DEPTH:
            raise ValueError(f"a header's value has more than {MOST_DEPTH} tables or arrays in one another")
        fields = _nested(payload, start, stop, kind == 70, depth + 1)
        return 5 + size, dict(fields) if kind == 70 else [value for _, value in fields]
    try:
        return decode.embedded_value(payload[at : at + 9])  # the longest of the others
    except (ValueError, KeyError, OverflowError, ArithmeticError) as e:
        raise ValueError(f"a header's value is damaged: {e}") from e


def _nested(payload: bytes, at: int, end: int, named: bool, depth: int) -> list[tuple[str, Any]]:
    """The fields of a table or array in a table, for people: strings are text. Those of an array have the name ""."""
    found = []
    while at < end:
        name = ""
        if named:
            start = at + 1
            at = start + payload[at]
            name = payload[start:at].decode("utf-8", "replace")
        used, value = _field(payload, at, depth)
        at += used
        found.append((name, value))
    if at != end:
        raise ValueError("the last field in a header's value is longer than the value")
    return found


def timestamp(seconds: int) -> str:
    """RFC 3339 in UTC of a POSIX time; "" for a year that RFC 3339 can't have."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return ""
