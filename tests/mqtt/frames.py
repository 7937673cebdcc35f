"""MQTT packets, split and read by the tests themselves."""

from __future__ import annotations

import struct
from typing import Any

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 1, 2, 3, 4, 5, 6, 7
SUBSCRIBE, SUBACK, UNSUBSCRIBE, PINGREQ, PINGRESP, DISCONNECT = 8, 9, 10, 12, 13, 14


class Frames:
    """Splits a stream into packets."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """The packets that are complete now: (type, flags, what follows the fixed header)."""
        self._buffer += data
        found = []
        while packet := self._next():
            found.append(packet)
        return found

    def _next(self) -> tuple[int, int, bytes] | None:
        buffer = self._buffer
        at, length = 1, 0
        while at < len(buffer) and buffer[at] > 127:
            at += 1
        if at >= len(buffer):
            return None
        for byte in reversed(buffer[1 : at + 1]):
            length = length << 7 | byte & 127
        end = at + 1 + length
        if len(buffer) < end:
            return None
        head, body = buffer[0], bytes(buffer[at + 1 : end])
        del buffer[:end]
        return head >> 4, head & 15, body


def packet(kind: int, body: bytes = b"", flags: int = 0) -> bytes:
    length, encoded = len(body), bytearray()
    while True:
        encoded.append(length & 127 | (128 if length > 127 else 0))
        length >>= 7
        if not length:
            return bytes([kind << 4 | flags, *encoded]) + body


def mid_of(body: bytes) -> int:
    """The packet identifier of PUBACK and the like."""
    return int(struct.unpack(">H", body[:2])[0])


class Published:
    """A PUBLISH packet, read with paho's properties."""

    def __init__(self, flags: int, body: bytes, version: int = 5) -> None:
        self.qos, self.retain = flags >> 1 & 3, bool(flags & 1)
        at = 2 + mid_of(body)
        self.topic = body[2:at].decode()
        self.mid = 0
        if self.qos:
            self.mid = mid_of(body[at:])
            at += 2
        length = 0
        properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        if version == 5:
            _, length = properties.unpack(body[at:])
        self.user = list(getattr(properties, "UserProperty", []))
        self.content_type = getattr(properties, "ContentType", None)
        self.payload = body[at + length :]
