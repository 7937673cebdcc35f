"""How MQTT carries events: the binding, and messages as the bytes of a PUBLISH packet.

Sources: CloudEvents MQTT protocol binding 1.0.2; MQTT 5 sections 1.5 (data types), 2.2.2 (properties) and 3.3
(PUBLISH).
"""

from __future__ import annotations

import re
from struct import Struct
from struct import error as StructError
from typing import Final

from gateway_core.contract.component import Binding
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Message

from .server_config import CONTROL, MOST_BYTES, NO_CHARACTERS

_SECTIONS = {"mode": "3", "attributes": "3.1.3", "structured": "3.2"}
MQTT = Binding("mqtt", b"", False, "MQTT binding 1.0.2", _SECTIONS, trace=None, empty_is_none=True)
"""User properties have the plain names of attributes: `traceparent` is the event's own."""
TRACED = Binding("mqtt", b"", False, "MQTT binding 1.0.2", _SECTIONS, empty_is_none=True)
"""In a gateway that traces, the user properties `traceparent` and `tracestate` are the hop's. An event with attributes
of these names is written in structured mode."""

STRUCTURED: Final = (b"content-type", b"application/cloudevents+json")
"""The content type that MQTT 3.1.1 implies (section 3.2.1)."""


def binding(version: str, traces: bool) -> Binding:
    """The binding for a version of MQTT, in a gateway that traces or not. Messages of 3.1.1 have no properties."""
    return TRACED if traces and version == "5" else MQTT


_CONTENT_TYPE = b"content-type"
_ATTRIBUTE = re.compile(rb"[A-Za-z0-9]+")
_EASY = bytes(range(0x20, 0x7F))
_UNFIT = re.compile(f"[{CONTROL}{NO_CHARACTERS}]")
_SHORT = Struct(">H").unpack_from
_PREFIX = Struct(">BH").pack
_LENGTH = Struct(">H").pack
_EXPIRY = Struct(">BI").pack

# identifiers of properties (MQTT 5 section 2.2.2.2), by what follows them in a PUBLISH packet
_BYTES_OF = {0x01: 1, 0x02: 4, 0x23: 2}
_STRINGS = frozenset({0x03, 0x08, 0x09})
_VARIABLE = 0x0B
_CONTENT_TYPE_ID, _USER_ID, _EXPIRY_ID, _REASON_ID = 0x03, 0x26, 0x02, 0x1F

_LONGEST = 256
_known: dict[bytes, bool] = {b"data": False, b"content-encoding": True}


class Malformed(Exception):
    """A packet that breaks the rules of MQTT: the connection must end (MQTT 5 section 4.13)."""


class Publish:
    """A message as it came.

    `headers`  the content type, and the user properties that may be attributes, or name a content coding.
    `other`    all other user properties: they only count for a message that is not an event.
    """

    __slots__ = ("headers", "mid", "other", "payload", "qos", "retain", "topic")

    def __init__(self, command: int, packet: bytes, properties: bool) -> None:
        """Reads what follows the fixed header of a PUBLISH packet. Raises `Malformed`."""
        try:
            self.qos = command >> 1 & 3
            self.retain = bool(command & 1)
            at = 2 + _SHORT(packet)[0]
            if at > len(packet):
                raise Malformed("the topic is longer than the packet")
            self.topic = packet[2:at].decode()
            if self.qos == 3 or not self.topic:  # we allow no topic aliases
                raise Malformed("QoS 3, or no topic")
            self.mid = 0
            if self.qos:
                (self.mid,) = _SHORT(packet, at)
                at += 2
            self.headers: list[tuple[bytes, bytes]] = []
            self.other: list[tuple[bytes, bytes]] = []
            if properties:
                at = self._properties(packet, at)
            self.payload = packet[at:]
        except (IndexError, ValueError, StructError) as e:
            raise Malformed(str(e)) from e

    def _properties(self, packet: bytes, at: int) -> int:
        length, at = _variable(packet, at)
        end = at + length
        if end > len(packet):
            raise Malformed("the properties are longer than the packet")
        while at < end:
            identifier = packet[at]
            at += 1
            if identifier == _USER_ID:
                name, at = _string(packet, at)
                value, at = _string(packet, at)
                is_attribute = _known.get(name)
                if is_attribute is None:
                    is_attribute = _ATTRIBUTE.fullmatch(name) is not None
                    if len(_known) < 4096 and len(name) <= _LONGEST:
                        _known[name] = is_attribute
                (self.headers if is_attribute else self.other).append((name, value))
            elif identifier in _STRINGS:
                value, at = _string(packet, at)
                if identifier == _CONTENT_TYPE_ID:
                    self.headers.append((_CONTENT_TYPE, value))
            elif identifier == _VARIABLE:
                _, at = _variable(packet, at)
            elif identifier in _BYTES_OF:
                at += _BYTES_OF[identifier]
            else:
                raise Malformed(f"property {identifier} in PUBLISH")
        if at != end:
            raise Malformed("a property is longer than the properties")
        return end

    def message(self) -> Message:
        """The message for the codec. One without any property is what a client of MQTT 3.1.1 sends: its content type is
        implied, and in binary mode it could not be an event (section 3)."""
        return Message(self.headers or [STRUCTURED], self.payload)


def _string(packet: bytes, at: int) -> tuple[bytes, int]:
    end = at + 2 + _SHORT(packet, at)[0]
    if end > len(packet):
        raise Malformed("a string is longer than the packet")
    return packet[at + 2 : end], end


def _variable(packet: bytes, at: int) -> tuple[int, int]:
    """A Variable Byte Integer (MQTT 5 section 1.5.5), and where it ends."""
    value = shift = 0
    while True:
        byte = packet[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 21:
            raise Malformed("a Variable Byte Integer of more than four bytes")


def variable(value: int) -> bytes:
    """A number as Variable Byte Integer."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def reason_string(packet: bytes, at: int) -> str:
    """The Reason String in the properties of an acknowledgement, which begin here; "" if there is none."""
    try:
        length, at = _variable(packet, at)
        end = at + length
        while at < end:
            identifier = packet[at]
            text, at = _string(packet, at + 1)
            if identifier == _REASON_ID:
                return text.decode(errors="replace")
            if identifier == _USER_ID:
                _, at = _string(packet, at)
    except Exception:  # it is only a hint for people
        return ""
    return ""


class Properties:
    """The properties of a PUBLISH packet, packed; in the form that paho asks for."""

    __slots__ = ("_packed",)

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    def pack(self) -> bytes:
        return self._packed

    def __len__(self) -> int:
        return len(self._packed)


def properties(message: Message, expiry_s: int | None = None) -> Properties:
    """The content type and the user properties of a message. Raises `Refused` if MQTT can't carry one: a text of more
    than 65,535 bytes, or with control characters (MQTT 5 section 1.5.4: a server closes the connection for them)."""
    packed = [] if expiry_s is None else [_EXPIRY(_EXPIRY_ID, expiry_s)]
    for name, value in message.headers:
        if len(value) > MOST_BYTES or value.translate(None, _EASY):
            _check(name, value)
        if name == _CONTENT_TYPE:
            packed += (_PREFIX(_CONTENT_TYPE_ID, len(value)), value)
        else:
            packed += (_PREFIX(_USER_ID, len(name)), name, _LENGTH(len(value)), value)
    joined = b"".join(packed)
    return Properties(variable(len(joined)) + joined)


def _check(name: bytes, value: bytes) -> None:
    attribute = name.decode(errors="replace")
    rule = "MQTT 5, section 1.5.4"
    if len(value) > MOST_BYTES:
        text = f"the value of {attribute} has {len(value)} bytes; MQTT takes {MOST_BYTES} at most"
        raise Refused(text, attribute=attribute, rule=rule)
    try:
        unfit = _UNFIT.search(value.decode())
    except UnicodeDecodeError as e:
        raise Refused(f"the value of {attribute} is not UTF-8", attribute=attribute, rule=rule) from e
    if unfit:
        text = f"the value of {attribute} contains U+{ord(unfit[0]):04X}, which MQTT servers reject"
        raise Refused(text, attribute=attribute, rule=rule)


def packet_size(topic: bytes, payload: bytes, properties: int) -> int:
    """The size of a whole PUBLISH packet with a packet identifier, in bytes; `properties` is theirs."""
    rest = 4 + len(topic) + properties + len(payload)
    return 1 + len(variable(rest)) + rest
