"""A content coding beside the body: gzip is undone, and no subscriber gets compressed data that nothing declares."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from gateway_cloudevents.bindings import KAFKA
from gateway_mqtt.binding import MQTT, Publish, properties
from gateway_nats.binding import NATS
from gateway_nats.binding import message_of as of_nats
from gateway_rabbitmq import wire
from gateway_rabbitmq.binding import AMQP
from gateway_rabbitmq.binding import to_message as of_amqp
from gateway_redis.binding import REDIS
from gateway_redis.binding import message_of as of_redis

from gateway_core.contract.component import Binding
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message

pytestmark = pytest.mark.spec("SAFE-108")

GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
BODY = b'{"a": "\xc3\xa9"}'


def kafka(headers: dict[str, str], body: bytes, coding: str) -> tuple[Binding, Message]:
    pairs = [(n.encode(), v.encode()) for n, v in headers.items()]
    return KAFKA, Message([*pairs, (b"Content-Encoding", coding.encode())], body)


def nats(headers: dict[str, str], body: bytes, coding: str) -> tuple[Binding, Message]:
    return NATS, of_nats({**headers, "Content-Encoding": coding}, body)


def redis(headers: dict[str, str], body: bytes, coding: str) -> tuple[Binding, Message]:
    fields = [part.encode() for header in headers.items() for part in header]
    return REDIS, of_redis([*fields, b"content-encoding", coding.encode(), b"data", body])


def mqtt(headers: dict[str, str], body: bytes, coding: str) -> tuple[Binding, Message]:
    pairs = [(n.encode(), v.encode()) for n, v in headers.items()]
    packed = properties(Message([*pairs, (b"content-encoding", coding.encode())], body)).pack()
    return MQTT, Publish(0x30, b"\x00\x01t" + packed + body, properties=True).message()


def amqp(headers: dict[str, str], body: bytes, coding: str) -> tuple[Binding, Message]:
    """As the server sends it: the coding is a property of the message."""
    kind = headers.get("content-type", "").encode()
    table = [(n.encode(), v.encode()) for n, v in headers.items() if n != "content-type"]
    packed = wire.properties(kind, table, True, b"")
    flags = int.from_bytes(packed[:2], "big") | 1 << 14
    at = 2 + (1 + len(kind) if kind else 0)
    packed = flags.to_bytes(2, "big") + packed[2:at] + wire.short(coding) + packed[at:]
    content = wire.Content(body)
    assert wire.read_header(b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + packed, content) == len(body)
    return AMQP, of_amqp(content)


CARRIED: dict[str, tuple[str, Any]] = {
    "amqp": ("cloudEvents_", amqp),
    "kafka": ("ce_", kafka),
    "mqtt": ("", mqtt),
    "nats": ("ce-", nats),
    "redis": ("ce_", redis),
}
each = pytest.mark.parametrize(("prefix", "carry"), CARRIED.values(), ids=CARRIED.keys())


def headers_of(prefix: str) -> dict[str, str]:
    return {"content-type": "application/json", **{f"{prefix}{n}": v for n, v in GOOD.items()}}


@each
@pytest.mark.parametrize("coding", ["gzip", "X-GZIP", " gzip "])
def test_gzip_is_undone_in_binary_mode(make_codec: Any, prefix: str, carry: Any, coding: str) -> None:
    binding, message = carry(headers_of(prefix), gzip.compress(BODY), coding)
    [event] = make_codec("binary", binding).decode(message)
    kind = event.attributes.pop("datacontenttype", "application/json")
    assert (event.attributes, kind, event.data) == (GOOD, "application/json", BODY)


@each
def test_gzip_is_undone_in_structured_mode(make_codec: Any, prefix: str, carry: Any) -> None:
    body = gzip.compress(json.dumps({**GOOD, "data": 1}).encode())
    binding, message = carry({"content-type": "application/cloudevents+json"}, body, "gzip")
    assert make_codec("binary", binding).decode(message) == [Event(GOOD, b"1")]


@each
@pytest.mark.parametrize("coding", ["utf-8", "identity", "gzip"])
def test_a_body_that_is_not_compressed_stays_as_it_is(make_codec: Any, prefix: str, carry: Any, coding: str) -> None:
    """Some clients write the charset there; some decompress the body and forget the header."""
    binding, message = carry(headers_of(prefix), BODY, coding)
    [event] = make_codec("binary", binding).decode(message)
    assert event.data == BODY
    assert "contentencoding" not in event.attributes


@each
def test_an_unknown_coding_is_declared_to_the_subscriber(make_codec: Any, prefix: str, carry: Any) -> None:
    binding, message = carry(headers_of(prefix), b"\x0b\x02", "br")
    [event] = make_codec("binary", binding).decode(message)
    assert (event.attributes["contentencoding"], event.data) == ("br", b"\x0b\x02")


@each
def test_a_broken_or_endless_gzip_is_refused(make_codec: Any, prefix: str, carry: Any) -> None:
    for body in (gzip.compress(BODY)[:-9], gzip.compress(bytes(33 * 1024 * 1024), 1)):
        binding, message = carry(headers_of(prefix), body, "gzip")
        with pytest.raises(Refused):
            make_codec("binary", binding).decode(message)
