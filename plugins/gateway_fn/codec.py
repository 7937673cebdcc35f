"""The codec: JSON under Fn's 0.1 names by itself, all else by the codec `cloudevents` in structured mode."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Raw

from gateway_core.component import BuildContext, CodecRef
from gateway_core.errors import Refused
from gateway_core.event import Event, Message
from gateway_core.interfaces import Codec

from . import data
from .config import FnCodecConfig
from .convert import CORE
from .names import EXTENSIONS, HTTP_RESPONSE, VERSION, under_fn_names

MEDIA_TYPE = b"application/cloudevents+json"
RULE = "CloudEvents 0.1 under Fn's names"

_HEADERS = (b"content-type", b"application/cloudevents+json; charset=utf-8")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_REQUIRED = ("eventType", "source", "eventID")
_UNKNOWN = "urn:unknown"  # stands in until the gateway sets the function's own
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_any = msgspec.json.Decoder().decode
_write = msgspec.json.Encoder().encode


class FnCodec:
    """A `Codec`. `lenient` reads what functions return: whoever reads it sets source, id and time."""

    def __init__(self, options: FnCodecConfig, context: BuildContext) -> None:
        self._lenient = options.lenient
        self._other: Codec = context.build(CodecRef("cloudevents", {"mode": "structured"}))

    def decode(self, message: Message) -> list[Event]:
        content_type = message.header(b"content-type") or b""
        if content_type.partition(b";")[0].strip(b" \t").lower() != MEDIA_TYPE:
            return self._other.decode(_completed_headers(message) if self._lenient else message)
        members = _object(message.body or b"")
        if VERSION in members or (self._lenient and "specversion" not in members):
            return [self._read(members, message.key)]
        if self._lenient:
            message = Message(message.headers, _write(_UNSET_1_0 | members), message.key)
        return self._other.decode(message)

    def encode(self, event: Event) -> Message:
        if not under_fn_names(event):
            return self._other.encode(event)
        return Message([_HEADERS], written(event), event.key)

    def _read(self, members: dict[str, Raw], key: bytes | None) -> Event:
        value = members.pop("data", None)
        attributes = {name: found for name, text in members.items() if (found := _any(text)) is not None}
        if self._lenient:
            attributes = {VERSION: "0.1", "eventType": HTTP_RESPONSE, "source": _UNKNOWN, "eventID": "0"} | attributes
        _check(attributes)
        extra = {name: attributes.pop(name) for name in attributes.keys() - CORE}
        if extra:
            attributes[EXTENSIONS] = extra | attributes.get(EXTENSIONS, {})
        event = Event(attributes, key=key)
        if value is not None and bytes(value) != b"null":
            event.data, event.json_data = data.read(bytes(value), attributes.get("contentType"))
        return event


_UNSET_1_0 = {"id": Raw(b'"0"'), "source": Raw(b'"urn:unknown"'), "type": Raw(_write(HTTP_RESPONSE))}


def _completed_headers(message: Message) -> Message:
    """A returned event in binary mode with the attributes that the gateway will set."""
    there = {name.lower() for name, _ in message.headers}
    if b"ce-specversion" not in there:
        return message
    unset = ((b"ce-id", b"0"), (b"ce-source", b"urn:unknown"), (b"ce-type", HTTP_RESPONSE.encode()))
    return Message([*message.headers, *(h for h in unset if h[0] not in there)], message.body, message.key)


def written(event: Event) -> bytes:
    """An event under Fn's names as JSON. Raises `Refused` where its data is not what its content type says."""
    attributes = event.attributes
    members = {name: value for name, value in attributes.items() if name in CORE}
    extra = {name: value for name, value in attributes.items() if name not in CORE}
    if extra:  # what the gateway itself has set on its way
        members[EXTENSIONS] = {**attributes.get(EXTENSIONS, {}), **extra}
    if event.data or (event.data is not None and not data.is_json(attributes.get("contentType", "application/json"))):
        value, content_type = data.written(event.data, attributes.get("contentType"), event.json_data)
        members |= {"contentType": content_type} if content_type else {}
        members["data"] = value
    return _write(members)


def _object(body: bytes) -> dict[str, Raw]:
    try:
        body.decode()
        return _members(body)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as e:
        raise Refused(f"not a JSON object of an event: {e}", rule=RULE) from e


def _check(attributes: dict[str, Any]) -> None:
    if attributes.get(VERSION) != "0.1":
        raise _fault(VERSION, "is not 0.1")
    for name in _REQUIRED:
        if not attributes.get(name):
            raise _fault(name, "is required, and missing or empty")
    for name in CORE & attributes.keys() - {EXTENSIONS}:
        if not isinstance(attributes[name], str):
            raise _fault(name, "is not a string")
    if not isinstance(attributes.get(EXTENSIONS, {}), dict):
        raise _fault(EXTENSIONS, "is not an object")
    if "eventTime" in attributes and not _TIME.fullmatch(attributes["eventTime"]):
        raise _fault("eventTime", "is not an RFC 3339 date and time")


def _fault(attribute: str, what: str) -> Refused:
    return Refused(f"attribute {attribute} {what}", attribute=attribute, rule=RULE)
