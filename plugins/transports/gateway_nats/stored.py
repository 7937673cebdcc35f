"""The events of the channel `jetstream` in messages: in the binding's binary or structured mode, with headers of our
own for what NATS can't carry.

| header | |
| --- | --- |
| `Tidegate-Key` | the record key, in Base64 |
| `Tidegate-Data` | `none`: no data; `empty`: data of no bytes; `json`: JSON data without a `datacontenttype` |
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable

from gateway_transport.messages import reader, writer

from gateway_core.contract.component import BuildContext, CodecRef, KeyMapperRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event

from .binding import NATS, headers_of, message_of

KEY, DATA = "Tidegate-Key", "Tidegate-Data"


def stored_ns(reply: str) -> int:
    """When the stream stored a message, Unix time in nanoseconds, from the subject on which it is acknowledged, which
    may name domain and account; 0 if no stream did."""
    tokens = reply.split(".")
    if tokens[0] != "$JS":
        return 0
    return int(tokens[7] if len(tokens) == 9 else tokens[9])


def event_writer(
    codec: CodecRef, key: KeyMapperRef, context: BuildContext
) -> Callable[[Event], tuple[bytes, dict[str, str]]]:
    """Returns a function that encodes an event: payload and headers. It raises `Refused` if the event can't be
    encoded."""
    write = writer(codec, NATS, context, key)

    def encode(event: Event) -> tuple[bytes, dict[str, str]]:
        message = write(event)
        headers = headers_of(message)
        if message.key is not None:
            headers[KEY] = b64encode(message.key).decode()
        if event.json_data:
            headers[DATA] = "json"
        elif not event.data:
            headers[DATA] = "none" if event.data is None else "empty"
        return message.body or b"", headers

    return encode


def event_reader(codec: CodecRef, context: BuildContext) -> Callable[[dict[str, str] | None, bytes], Event]:
    """Returns a function that decodes the event of a message, also of one that another program has published. It
    raises `Refused` if the message is not an event."""
    read = reader(codec, NATS, context)

    def decode(headers: dict[str, str] | None, payload: bytes) -> Event:
        key = data = None
        if headers:
            if (text := headers.get(KEY)) is not None:
                try:
                    key = b64decode(text, validate=True)
                except Error:
                    raise Refused(f"the header {KEY} is not Base64") from None
            data = headers.get(DATA)
        event = read(message_of(headers, payload, key))
        if data == "none":
            event.data = None
        elif data == "empty":
            event.data = b""
        elif data == "json" and not event.json_data:
            event.json_data = True
            event.attributes.pop("datacontenttype", None)
        return event

    return decode
