"""The codec: CloudEvents in structured mode, lenient with what functions return. The codec `cloudevents`, which knows
both spellings of 0.1, does the rest."""

from __future__ import annotations

import msgspec
from gateway_cloudevents import event_json

from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec

from .config import FnCodecConfig
from .convert import CORE
from .names import EXTENSIONS, HTTP_RESPONSE, VERSION, under_fn_names

MEDIA_TYPE = b"application/cloudevents+json"

_write = msgspec.json.Encoder().encode

# values that the gateway overwrites anyway replace what a function leaves out
_UNSET = {"id": "0", "source": "urn:unknown", "type": HTTP_RESPONSE}
_UNSET_FN = {VERSION: "0.1", "eventID": "0", "source": "urn:unknown", "eventType": HTTP_RESPONSE}
_NOTHING = {b"null", b'""', b"{}"}


class FnCodec:
    """A `Codec`. `lenient` accepts what functions return: the caller sets source, id and time."""

    def __init__(self, options: FnCodecConfig, context: BuildContext) -> None:
        self._lenient = options.lenient
        self._codec: Codec = context.build(CodecRef("cloudevents", {"mode": "structured"}))

    def decode(self, message: Message) -> list[Event]:
        return self._codec.decode(_completed(message) if self._lenient else message)

    def encode(self, event: Event) -> Message:
        return self._codec.encode(_with_extras_inside(event) if under_fn_names(event) else event)


def _with_extras_inside(event: Event) -> Event:
    """Moves what the gateway has added (the loop guard) into `extensions`, as 0.1 requires."""
    extra = {name: value for name, value in event.attributes.items() if name not in CORE}
    if not extra:
        return event
    attributes = {name: value for name, value in event.attributes.items() if name in CORE}
    attributes[EXTENSIONS] = {**attributes.get(EXTENSIONS, {}), **extra}
    return Event(attributes, event.data, event.json_data, event.key, event.received_ns, event.position)


def _completed(message: Message) -> Message:
    """Adds missing required members to a returned event. Anything that is not an event stays unchanged, to be
    refused."""
    content_type = message.header(b"content-type") or b""
    if content_type.partition(b";")[0].strip(b" \t").lower() != MEDIA_TYPE:
        return _completed_headers(message)
    try:
        members = event_json.members(message.body or b"")
    except ValueError:
        return message
    unset = _UNSET if "specversion" in members else _UNSET_FN
    said = {n: v for n, v in members.items() if not (bytes(v) in _NOTHING and (n in unset or n == EXTENSIONS))}
    if bytes(said.get("data", b"")) == b"null":
        del said["data"]
    return Message(message.headers, _write({**unset, **said}), message.key)


def _completed_headers(message: Message) -> Message:
    there = {name.lower() for name, _ in message.headers}
    if b"ce-specversion" not in there:
        return message
    unset = [(f"ce-{name}".encode(), value.encode()) for name, value in _UNSET.items()]
    return Message([*message.headers, *(h for h in unset if h[0] not in there)], message.body, message.key)
