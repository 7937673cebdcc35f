"""Converts between records and events by codec."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from gateway_cloudevents.bindings import KAFKA
from gateway_cloudevents.memory import Memory
from gateway_cloudevents.text_headers import TextHeaders
from gateway_transport import messages
from gateway_transport.trace_headers import headers as trace_headers

from gateway_core.contract.component import BuildContext, CodecRef, KeyMapperRef
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec, KeyMapper

from .client import Headers, Record

Written = tuple[bytes | None, bytes | None, Headers]
"""Key, value, headers."""


def reader(ref: CodecRef, context: BuildContext) -> Callable[[Record], Event]:
    """Returns a function that decodes the event of a record. It raises `Refused` if the record is not an event."""
    read_message = messages.reader(ref, KAFKA, context, "record")
    names: Memory[str, bytes] = Memory(str.encode)

    def read(record: Record) -> Event:
        headers = [(names[name], value) for name, value in record.headers if value is not None]
        return read_message(Message(headers, record.value, record.key))

    return read


def writer(ref: CodecRef, key: KeyMapperRef, context: BuildContext) -> Callable[[Event], Written]:
    """Returns a function that encodes an event as a record. It raises `Refused` if the event can't be encoded."""
    codec = cast(Codec, context.build(ref, "codec", binding=KAFKA))
    key_of = cast(KeyMapper, context.build(key, "key"))
    encode, text_headers = codec.encode, codec.text_headers if isinstance(codec, TextHeaders) else _not_known
    names: Memory[bytes, str] = Memory(bytes.decode)

    def write(event: Event) -> Written:
        value, headers = event.data, text_headers(event)
        if headers is None:
            message = encode(event)
            value, headers = message.body, [(names[name], text) for name, text in message.headers]
        if event.trace is not None:
            traced = [(names[name], text) for name, text in trace_headers(event.trace, KAFKA.trace)]
            headers = [*headers, *traced]  # the codec may keep its list
        return key_of(event), value, headers

    return write


def _not_known(event: Event) -> Headers | None:
    return None


def preview(url: str, key: bytes | None, value: bytes | None, headers: Headers) -> Message:
    """A record in the form of `gateway_core.contract.capabilities.Previewing`."""
    return Message([(name.encode(), text) for name, text in headers], value, key, url=url)


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """The approximate memory that a waiting record takes, in bytes."""
    size = 200 + (len(key) if key else 0) + (len(value) if value else 0)
    for _, text in headers:
        size += len(text)
    return size
