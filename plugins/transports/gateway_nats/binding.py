"""CloudEvents in NATS messages.

The released binding, 1.0.2, knows structured mode only: every payload is a JSON event (section 3). The next version
(1.0.3-wip, on the main branch) adds binary mode: attributes are headers with the prefix `ce-`, percent-encoded
(sections 3.1.3.1 and 3.1.3.2). A message is structured if its `Content-Type` is `application/cloudevents`.

Both are read, and so is what cloudevents/sdk-go sends, which differs from that text: it has no `Content-Type` on
structured events, reads data's type from `content-type` too, and does not percent-encode values. Hence:

* a message without any `ce-` header is structured, whatever else it has (1.0.2, section 3);
* `ce-datacontenttype` is the data's type (section 3.1.3.1), else `content-type` is;
* a `%` that begins no escape stands for itself.

The names of headers know no case (section 3.1.3.1).
"""

from __future__ import annotations

from urllib.parse import quote, unquote_to_bytes

from gateway_cloudevents.memory import Memory

from gateway_core.contract.component import Binding
from gateway_core.contract.event import Message

NATS = Binding(
    "nats",
    b"ce-",
    True,
    "NATS binding 1.0.3-wip",
    {"mode": "3", "attributes": "3.1.3", "structured": "3.2"},
    folds_case=True,
    empty_is_none=True,
)

_STRUCTURED = (b"content-type", b"application/cloudevents+json")
_CLOUDEVENTS = "application/cloudevents"
_PLAIN = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"%')


def _type_in(value: str) -> str:
    text = value[1:-1].replace("\\", "") if len(value) > 1 and value[0] == value[-1] == '"' else value
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        return text


_names_in: Memory[str, bytes] = Memory(lambda name: name.lower().encode())
_types_in: Memory[str, str] = Memory(_type_in)
_names_out: Memory[bytes, str] = Memory(bytes.decode)
_types_out: Memory[str, str] = Memory(lambda value: quote(value, safe=_PLAIN))


def message_of(headers: dict[str, str] | None, data: bytes, key: bytes | None = None) -> Message:
    """A NATS message as a codec for `NATS` reads it: its content mode is in `content-type`."""
    if not headers:
        return Message([_STRUCTURED], data, key)
    found = {_names_in[name]: value for name, value in headers.items()}
    content = found.get(b"content-type")
    if content is not None and content[:23].lower() == _CLOUDEVENTS:
        if content[23:24] in ("", ";", " "):  # no format is named: it is JSON (section 3)
            found[b"content-type"] = f"{_CLOUDEVENTS}+json{content[23:]}"
    elif b"ce-specversion" not in found and not any(name.startswith(b"ce-") for name in found):
        found[b"content-type"] = f"{_CLOUDEVENTS}+json"
    elif (declared := found.get(b"ce-datacontenttype")) is not None:
        media_type = _types_in[declared]
        if media_type[:23].lower() == _CLOUDEVENTS:  # data that is an event itself: the mode stays binary
            found.pop(b"content-type", None)
        else:
            del found[b"ce-datacontenttype"]
            found[b"content-type"] = media_type
    return Message([(name, value.encode()) for name, value in found.items()], data, key)


def headers_of(message: Message) -> dict[str, str]:
    """The headers of a NATS message for what a codec for `NATS` wrote."""
    headers: dict[str, str] = {}
    for name, value in message.headers:
        if name != b"content-type":
            headers[_names_out[name]] = value.decode()
        elif value[:23] == b"application/cloudevents":
            headers["Content-Type"] = value.decode()
        else:
            headers["ce-datacontenttype"] = _types_out[value.decode()]
    return headers
