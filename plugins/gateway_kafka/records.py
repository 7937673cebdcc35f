"""Converts between records and events by codec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway_cloudevents.bindings import KAFKA
from gateway_cloudevents.trace_headers import headers as trace_headers
from gateway_cloudevents.trace_headers import of_headers

from gateway_core.contract.component import BuildContext, CodecRef, KeyMapperRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec, KeyMapper

from .client import Headers, Record

Written = tuple[bytes | None, bytes | None, Headers]
"""Key, value, headers."""


class Names(dict[Any, Any]):
    """Caches the converted names of headers: there are few of them, used again and again."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, name: Any) -> Any:
        converted = self._convert(name)
        if len(self) < 4096:
            self[name] = converted
        return converted


def reader(ref: CodecRef, context: BuildContext) -> Callable[[Record], Event]:
    """Returns a function that decodes the event of a record. It raises `Refused` if the record is not an event."""
    codec: Codec = context.build(ref, "codec", binding=KAFKA)
    decode = codec.decode
    names = Names(str.encode)
    now = context.clock.now_ns
    traces = context.traces

    def read(record: Record) -> Event:
        headers = [(names[name], value) for name, value in record.headers if value is not None]
        try:
            events = decode(Message(headers, record.value, record.key))
        except Refused as e:
            if traces:
                e.trace = of_headers(headers)
            raise
        except Exception as e:  # a bug in a codec must not block the records behind
            raise Refused(f"the codec failed: {type(e).__name__}: {e}") from e
        if len(events) != 1:
            raise Refused(f"a record holds one event, this one {len(events)}")
        event = events[0]
        event.received_ns = now()
        if traces:
            event.trace = of_headers(headers)
        return event

    return read


def writer(ref: CodecRef, key: KeyMapperRef, context: BuildContext) -> Callable[[Event], Written]:
    """Returns a function that encodes an event as a record. It raises `Refused` if the event can't be encoded."""
    codec: Codec = context.build(ref, "codec", binding=KAFKA)
    mapper: KeyMapper = context.build(key, "key")
    encode = codec.encode
    names = Names(bytes.decode)

    def write(event: Event) -> Written:
        message = encode(event)
        if event.trace is not None:
            message.headers = [*message.headers, *trace_headers(event.trace)]
        return mapper(event), message.body, [(names[name], value) for name, value in message.headers]

    return write


def preview(url: str, key: bytes | None, value: bytes | None, headers: Headers) -> Message:
    """A record in the form of `gateway_core.contract.capabilities.Previewing`."""
    return Message([(name.encode(), text) for name, text in headers], value, key, url=url)
