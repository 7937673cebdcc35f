"""Content headers of AMQP 0-9-1 (properties and tables of headers): any bytes are read, or it is said what can't be; a
message is an event, or refused by name.

An input is the length of the content header in two bytes, the content header, and the body.
"""

from __future__ import annotations

from contextlib import suppress

from gateway_rabbitmq.binding import AMQP, as_text, split, to_message
from gateway_rabbitmq.wire import Content, delivery, properties, read_header
from gateway_transport.not_an_event import wrapped

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from tests.fuzz.checks import JSON_EVENT, Side, check_refusal, check_same

_side = Side(AMQP)


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    size = int.from_bytes(data[:2], "big")
    head, body = data[2 : 2 + size], data[2 + size :]
    with suppress(ValueError, IndexError):  # a server that sends this is none: the connection ends
        delivery(head)
    found = Content(body)
    try:
        assert read_header(head, found) >= 0
    except ValueError:
        return
    headers = [(name.decode(errors="replace"), as_text(value)) for name, value in found.headers.items()]
    wrapped(id="1", source="rabbitmq:/q", type="t", data=body, headers=headers, prefix="rabbitmq")
    try:
        message = to_message(found)
    except Refused as e:
        check_refusal(e)
    else:
        if (event := _side.event(message)) is not None:
            _check_written(event)


def _check_written(event: Event) -> None:
    for write in _side.writers:
        try:
            message = write(event)
            content_type, headers = split(message)
        except Refused:
            continue
        again = Content(message.body or b"")
        packed = properties(content_type, headers, True, b"")
        read_header(b"\0\x3c\0\0" + bytes(8) + packed, again)
        assert not again.fault, again.fault
        check_same(event, _side.read(to_message(again)))


def _made(*pairs: tuple[bytes, bytes], content_type: bytes = b"", body: bytes = b"x") -> bytes:
    """`pairs` are names, and fields with their type before them."""
    table = b"".join(bytes([len(name)]) + name + field for name, field in pairs)
    flags = (1 << 15 if content_type else 0) | 1 << 13
    head = b"\0\x3c\0\0" + len(body).to_bytes(8, "big") + flags.to_bytes(2, "big")
    head += (bytes([len(content_type)]) + content_type if content_type else b"") + len(table).to_bytes(4, "big") + table
    return len(head).to_bytes(2, "big") + head + body


def _text(value: bytes) -> bytes:
    return b"S" + len(value).to_bytes(4, "big") + value


def _event(prefix: bytes) -> list[tuple[bytes, bytes]]:
    attributes = {b"specversion": b"1.0", b"id": b"1", b"source": b"/s", b"type": b"t"}
    return [(prefix + name, _text(value)) for name, value in attributes.items()]


SEEDS = [
    *(_made(*_event(prefix), content_type=b"text/plain") for prefix in (b"cloudEvents_", b"cloudEvents:", b"ce-", b"")),
    _made(content_type=b"application/cloudevents+json", body=JSON_EVENT),
    _made(*_event(b"cloudEvents_"), (b"cloudEvents_n", b"I\0\0\0\x05"), (b"cloudEvents_b", b"t\x01"), (b"x-a", b"V")),
    _made(*_event(b"cloudEvents_"), (b"cloudEvents_d", b"d@\x14\0\0\0\0\0\0"), (b"cloudEvents_t", b"T" + bytes(8))),
    _made((b"x-death", b"A\0\0\0\x0eF\0\0\0\x09\x01aI\0\0\0\x01"), (b"m", b"F\0\0\0\0"), (b"y", b"x\0\0\0\x01\xff")),
    _made(
        (b"D", b"D\x02\0\0\0\x05"),
        (b"l", b"l" + bytes(8)),
        (b"u", b"u\0\x01"),
        (b"s", b"s\0\x01"),
        (b"f", b"f" + bytes(4)),
    ),
    b"\0\x40\0\x3c\0\0"
    + bytes(7)
    + b"\x01\xff\xfc\x03a/b\x04gzip\0\0\0\0\x02\x05\x01c\x01r\x011\x01m"
    + bytes(8)
    + b"\x01t\x01u\x01a\x01c",
    b"\0\x20\0\x3c\0\x3c\x03tag" + bytes(8) + b"\x01\x02ex\x02rkxxxx",
]
WORDS = [
    *(b"\x0ecloudEvents_id", b"\x17cloudEvents_specversion", b"S\0\0\0\x031.0", b"S\0\0\0\x011", b"F\0\0\0\x05"),
    *(b"A\0\0\0\x05", b"\x05ce-id", b"\x02id", b"T\0\0\0\0\0\0\0\x01", b"T\xff\xff\xff\xff\xff\xff\xff\xff"),
    *(b"D\xff\xff\xff\xff\xff", b"d\x7f\xf8", b"x\0\0\0\x02", b"V", b"t\x01", b"I\xff\xff\xff\xff", b"L", b"b\x01"),
    *(b"B\x01", b"U\0\x01", b"i", b"\0\0\0\0", b"\xff\xff"),
]  # fmt: skip
