"""Entries of Redis Streams and messages of NATS: any fields are an event, or refused by name.

An input is a byte (even: Redis, odd: NATS), then fields: a name and a value, each a length in two bytes and the bytes.
The last value of NATS without a name is the payload.
"""

from __future__ import annotations

from struct import unpack_from

from gateway_nats.binding import NATS, headers_of
from gateway_nats.binding import message_of as of_nats
from gateway_redis.binding import REDIS, fields_of, wrap
from gateway_redis.binding import message_of as of_redis

from gateway_core.contract.errors import Refused
from tests.fuzz.checks import JSON_EVENT, Side, check_same

_redis, _nats = Side(REDIS), Side(NATS)


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    fields = _fields(data)
    if data[:1] and data[0] % 2:
        _check_nats(fields)
    else:
        _check_redis(fields[: len(fields) // 2 * 2])


def _check_redis(fields: list[bytes]) -> None:
    wrapped = wrap("s", b"1526919030474-0", fields, "t", 5)
    for write in _redis.writers:  # what is wrapped is an event
        _redis.read(of_redis(fields_of(write(wrapped))))
    try:
        message = of_redis(fields)
    except Refused:
        return
    event = _redis.event(message)
    if event is None:
        return
    assert event.key == message.key
    for write in _redis.writers:
        try:
            written = write(event)
        except Refused:
            continue
        check_same(event, _redis.read(of_redis(fields_of(written))))


def _check_nats(fields: list[bytes]) -> None:
    payload = fields.pop() if len(fields) % 2 else b""
    pairs = zip(fields[::2], fields[1::2], strict=True)
    # as nats-py decodes them
    headers = {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in pairs if name}
    event = _nats.event(of_nats(headers or None, payload))
    if event is None:
        return
    for write in _nats.writers:
        try:
            message = write(event)
        except Refused:
            continue
        check_same(event, _nats.read(of_nats(headers_of(message), message.body or b"")))


def _fields(data: bytes) -> list[bytes]:
    found, at = [], 1
    while at + 2 <= len(data):
        (length,) = unpack_from(">H", data, at)
        found.append(data[at + 2 : at + 2 + length])
        at += 2 + length
    return found


def _made(kind: int, *fields: bytes) -> bytes:
    return bytes([kind]) + b"".join(len(field).to_bytes(2, "big") + field for field in fields)


def _event(prefix: bytes) -> list[bytes]:
    pairs = [(b"specversion", b"1.0"), (b"id", b"1"), (b"source", b"/s"), (b"type", b"t")]
    return [part for name, value in pairs for part in (prefix + name, value)]


_STRUCTURED = b"application/cloudevents+json"
SEEDS = [
    _made(0, *_event(b"ce_"), b"content-type", b"text/plain", b"data", b"x", b"key", b"k"),
    _made(0, b"content-type", _STRUCTURED, b"data", JSON_EVENT),
    _made(0, b"a", b"1", b"b", b"\xff", b"data", b"x", b"data", b"y"),
    _made(0, *_event(b"ce_"), b"ce_time", b"2018-04-05T17:31:00Z", b"ce_n", b""),
    _made(0, *_event(b"ce_"), b"ce_datacontenttype", b"a/b", b"ce_data", b"x"),
    _made(1, *_event(b"ce-"), b"ce-datacontenttype", b"text/plain", b"x"),
    _made(1, *_event(b"CE-"), b"Content-Type", b"application/json", b"{}"),
    _made(1, b"Content-Type", b"application/cloudevents", JSON_EVENT),
    _made(1, b"Content-Type", b"application/cloudevents; charset=utf-8", JSON_EVENT),
    _made(1, JSON_EVENT),
    _made(1, *_event(b"ce-"), b"ce-e", b'%E2%82%AC%zz"\\', b"x"),
    _made(1, *_event(b"ce-"), b"ce-datacontenttype", b'"application/cloudevents%2Bjson"', JSON_EVENT),
    _made(1, b"other", b"1", JSON_EVENT),
]
WORDS = [
    *(b"\0\x05ce_id\0\x011", b"\0\x0ece_specversion\0\x031.0", b"\0\x09ce_source\0\x02/s", b"\0\x07ce_type\0\x01t"),
    *(b"\0\x05ce-id\0\x011", b"\0\x0ece-specversion\0\x031.0", b"\0\x09ce-source\0\x02/s", b"\0\x07ce-type\0\x01t"),
    *(b"\0\x04data", b"\0\x03key", b"\0\x0ccontent-type", b"\0\x1capplication/cloudevents+json", b"\0\0", b"\0\x01"),
    *(b"ce-datacontenttype", b"ce_datacontenttype", b"%22", b"%", b"%00", b"\xef\xbf\xbe", b"\xc2\x85", b'"', b"\\"),
]  # fmt: skip
