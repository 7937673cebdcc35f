"""Our binding of CloudEvents to the entries of Redis Streams; CloudEvents has none.

An entry is a list of fields, each with a name and a value, both bytes.

| field | holds |
| --- | --- |
| `ce_<name>` | an attribute in binary mode, in UTF-8: `ce_id`, `ce_source`, `ce_type`, `ce_specversion`, extensions |
| `content-type` | `datacontenttype` in binary mode; `application/cloudevents+json` in structured mode |
| `data` | the data in binary mode, byte for byte; the JSON event in structured mode. Absent if there is no data |
| `key` | the key of the event, if it has one |
| `traceparent`, `tracestate` | the trace context of this hop (W3C Trace Context), if the gateway traces |

Names are case-sensitive; other fields are ignored. `data` and `key` come at most once. A batch is not taken.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence

from gateway_transport.not_an_event import wrapped

from gateway_core.contract.component import Binding
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message

DATA, KEY = b"data", b"key"

REDIS = Binding(
    "redis",
    b"ce_",
    False,
    "Redis Streams binding of Tidegate",
    {},
    reserved=frozenset({DATA, KEY}),
)


def fields_of(message: Message) -> list[bytes]:
    """The names and values of an entry, as XADD takes them."""
    fields: list[bytes] = []
    for header in message.headers:
        fields += header
    if message.body is not None:
        fields += (DATA, message.body)
    if message.key is not None:
        fields += (KEY, message.key)
    return fields


def message_of(fields: Sequence[bytes]) -> Message:
    """The message in an entry's fields. Raises `Refused` if `data` or `key` is there twice."""
    headers: list[tuple[bytes, bytes]] = []
    message = Message(headers)
    named = iter(fields)
    for name, value in zip(named, named, strict=True):
        if name == DATA:
            if message.body is not None:
                raise Refused("the field data appears more than once")
            message.body = value
        elif name == KEY:
            if message.key is not None:
                raise Refused("the field key appears more than once")
            message.key = value
        else:
            headers.append((name, value))
    return message


def wrap(stream: str, id: bytes, fields: Sequence[bytes], type: str, received_ns: int) -> Event:
    """An entry that is not a CloudEvent as an event (`gateway_transport.not_an_event`): its id and the time in it, the
    source `redis:/<stream>`, and fields as attributes `redisheader<name>`. The data is that of the field `data`. An
    entry without one becomes a JSON object of all its fields instead; a value that is not UTF-8 is there in Base64,
    with `_base64` after its name."""
    named = list(zip(fields[::2], fields[1::2], strict=True))
    data = [value for name, value in named if name == DATA]
    key = next((value for name, value in named if name == KEY), None)
    headers: list[tuple[str, bytes | None]]
    if data:
        body = data[-1]
        headers = [(name.decode(errors="replace"), value) for name, value in named if name not in (DATA, KEY)]
    else:
        body = json.dumps(dict(_member(name, value) for name, value in named), ensure_ascii=False).encode()
        headers = [("content-type", b"application/json")]
    return wrapped(
        id=id.decode(),
        source=f"redis:/{stream}",
        type=type,
        data=body,
        headers=headers,
        prefix="redis",
        key=key,
        timestamp_ms=int(id.partition(b"-")[0]),
        received_ns=received_ns,
    )


def _member(name: bytes, value: bytes) -> tuple[str, str]:
    text = name.decode(errors="replace")
    try:
        return text, value.decode()
    except UnicodeDecodeError:
        return f"{text}_base64", b64encode(value).decode()
