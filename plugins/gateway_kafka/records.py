"""Records and messages: what a codec reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway_core.component import KAFKA, BuildContext, CodecRef, KeyMapperRef
from gateway_core.errors import Refused
from gateway_core.event import Event, Message
from gateway_core.interfaces import Codec, KeyMapper
from gateway_core.tracing import headers as trace_headers
from gateway_core.tracing import of_headers

from .client import Headers, Record

Written = tuple[bytes | None, bytes | None, Headers]
"""Key, value, headers."""


class Names(dict[Any, Any]):
    """Header names in the other form, remembered: there are few of them, again and again."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, name: Any) -> Any:
        converted = self._convert(name)
        if len(self) < 4096:
            self[name] = converted
        return converted


def reader(ref: CodecRef, context: BuildContext) -> Callable[[Record], Event]:
    """Reads the event of a record. The function raises `Refused` where the record holds none."""
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
        except Exception as e:  # a codec's mistake must not stop the records behind
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
    """Writes an event as a record. The function raises `Refused` where the event can't be written."""
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
    """A record as `gateway_core.abilities.Previewing` shows it."""
    return Message([(name.encode(), text) for name, text in headers], value, key, url=url)
