"""PUBLISH packets of MQTT: any bytes are a message, or malformed; a message is an event, or refused by name.

An input is a byte (bits 0 to 3 as in the packet's first byte, bit 4: of MQTT 5), then what follows the fixed header.
"""

from __future__ import annotations

from gateway_mqtt.binding import MQTT, Malformed, Publish, properties, variable
from gateway_transport.not_an_event import wrapped

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from tests.fuzz.checks import JSON_EVENT, Side, check_same

_side = Side(MQTT)


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    command, packet = (data[0], data[1:]) if data else (0, b"")
    five = bool(command & 16)
    try:
        found = Publish(command & 15, packet, five)
    except Malformed:
        return
    assert found.qos < 3
    assert found.topic
    _check_places(found, packet, five)
    headers = [(name.decode(errors="replace"), value) for name, value in [*found.headers, *found.other]]
    wrapped(id="1", source="mqtt:/t", type="t", data=found.payload, headers=headers, prefix="mqtt")
    if (event := _side.event(found.message())) is not None:
        _check_written(event)


def _check_places(found: Publish, packet: bytes, five: bool) -> None:
    """What was read is what was there, in its order."""
    assert packet.endswith(found.payload)
    begin = 2 + len(found.topic.encode()) + (2 if found.qos else 0)
    if not five:
        assert begin + len(found.payload) == len(packet)
        return
    for name, value in [*found.headers, *found.other]:
        assert value in packet
        assert name == b"content-type" or name in packet
    assert begin < len(packet) - len(found.payload), "there are no properties"


def _check_written(event: Event) -> None:
    for write in _side.writers:
        try:
            message = write(event)
            packed = properties(message)
        except Refused:
            continue
        packet = b"\0\x01t" + packed.pack() + (message.body or b"")
        check_same(event, _side.read(Publish(0, packet, True).message()))


def _packet(command: int, *pairs: tuple[bytes, bytes], more: bytes = b"", payload: bytes = b"x") -> bytes:
    packed = more
    for name, value in pairs:
        if name != b"content-type":
            packed += b"\x26" + len(name).to_bytes(2, "big") + name
        else:
            packed += b"\x03"
        packed += len(value).to_bytes(2, "big") + value
    mid = b"\0\x05" if command & 6 else b""
    return bytes([command | 16]) + b"\0\x03a/b" + mid + variable(len(packed)) + packed + payload


_CE = ((b"specversion", b"1.0"), (b"id", b"1"), (b"source", b"/s"), (b"type", b"t"))
SEEDS = [
    _packet(0, *_CE),
    _packet(2, *_CE, (b"content-type", b"application/json"), payload=b"{}"),
    _packet(5, *_CE, (b"time", b"2018-04-05T17:31:00Z"), (b"e", "€".encode())),
    _packet(0, (b"content-type", b"application/cloudevents+json"), payload=JSON_EVENT),
    _packet(
        0, *_CE, (b"other-name", b"\xff"), more=b"\x01\x01\x02\0\0\0\x05\x08\0\x01r\x09\0\x01c\x0b\x81\x01\x23\0\x01"
    ),
    _packet(0, (b"id", b"1"), (b"id", b"2"), payload=b""),
    b"\0\0\x01t" + JSON_EVENT,
    b"\x02\0\x01t\0\x01" + JSON_EVENT,
    b"\0\0\x01t[" + JSON_EVENT + b"]",
    b"\x10\0\x01t\xff\xff\xff\x7f",
    b"\x06\0\x01t\0\x01",
]
WORDS = [
    *(b"\x26\0\x02id\0\x011", b"\x26\0\x0bspecversion\0\x031.0", b"\x26\0\x06source\0\x02/s"),
    *(b"\x26\0\x04type\0\x01t", b"\x03\0\x10application/json", b"\x03\0\x1capplication/cloudevents+json"),
    *(b"\x0b\x80\x80\x80\x01", b"\x26\0\0\0\0", b"\x01\x01", b"\x02\0\0\0\x01", b"\x23\0\x01", b"\x08\0\0"),
    *(b"\x09\0\x01", b"\x26\0\x04data\0\x01x", b"\x80\x01"),
]  # fmt: skip
