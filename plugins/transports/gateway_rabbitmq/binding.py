"""How a CloudEvent travels in an AMQP 0-9-1 message.

CloudEvents has no binding for AMQP 0-9-1. The sink writes the names of its binding for AMQP 1.0 (AMQP binding 1.0.2),
the only specification that there is, and what other software for AMQP expects. So an attribute is the header
`cloudEvents_id`, its value a string (section 3.1.3.2), and the content type is the property `content-type`. Knative's
RabbitMQ source and broker read `ce-id`: `headers: knative` writes that.

The source reads all of them: `cloudEvents_` and `cloudEvents:`, `ce-`, and the names without prefix that Knative's
broker writes. The headers of one message are read in one of these ways, the first whose `specversion` is there. Other
headers, such as `x-death`, are not attributes.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

from gateway_cloudevents.memory import Memory

from gateway_core.contract.component import TRACE_HEADERS, Binding
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Message

from .wire import Content

AMQP = Binding(
    "rabbitmq",
    b"cloudEvents_",
    False,
    "AMQP binding 1.0.2",
    {"mode": "3", "attributes": "3.1.3", "structured": "3.2"},
    empty_is_none=True,
)
KNATIVE = replace(AMQP, prefix=b"ce-")

_PREFIX = AMQP.prefix
_LONGEST = 255  # bytes in a short string


def _prefixed(*prefixes: bytes) -> Memory[bytes, bytes]:
    folded = tuple(prefix.lower() for prefix in prefixes)

    def name(header: bytes) -> bytes:
        lower = header.lower()
        if lower in TRACE_HEADERS:
            return lower
        for prefix in folded:
            if lower.startswith(prefix):
                return _PREFIX + header[len(prefix) :]
        return b""

    return Memory(name)


def _plain(header: bytes) -> bytes:
    lower = header.lower()
    if lower in TRACE_HEADERS:
        return lower
    return _PREFIX + lower if lower.isalnum() and lower.isascii() else b""


_NAMES = _prefixed(b"cloudEvents_", b"cloudEvents:")
_STYLES = (
    (b"cloudEvents_specversion", _NAMES),
    (b"cloudEvents:specversion", _NAMES),
    (b"ce-specversion", _prefixed(b"ce-")),
    (b"specversion", Memory(_plain)),
)


def to_message(content: Content) -> Message:
    """The message that the codec reads. Raises `Refused` if a value can't be that of an attribute."""
    headers = content.headers
    found: list[tuple[bytes, bytes]] = []
    if headers:
        names = next((names for name, names in _STYLES if name in headers), _NAMES)
        for header, value in headers.items():
            if (name := names[header]) and value is not None:
                found.append((name, value if type(value) is bytes else _text(header, value)))
    if content.content_type:
        found.append((b"content-type", content.content_type.encode()))
    if coding := content.properties.get("content_encoding"):
        found.append((b"content-encoding", coding.encode()))
    return Message(found, content.body)


def of_test(message: Message) -> Message:
    """A message as a person writes it, with the names of headers that the codec reads."""
    headers: dict[bytes, Any] = {}
    content_type = ""
    properties: dict[str, Any] = {}
    for name, value in message.headers:
        if name.lower() == b"content-type":
            content_type = value.decode("utf-8", "replace")
        elif name.lower() == b"content-encoding":
            properties["content_encoding"] = value.decode("utf-8", "replace")
        else:
            headers[name] = value
    return to_message(Content(message.body or b"", headers, content_type, properties))


def _text(header: bytes, value: Any) -> bytes:
    """The canonical string of a value (CloudEvents 1.0.2, "Type System")."""
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int | float | str):
        return str(value).encode()
    if isinstance(value, bytearray):
        return b64encode(value)
    text = header.decode("utf-8", "replace")
    raise Refused(f"the header {text} is a {type(value).__name__}, which an attribute can't be", rule=AMQP.title)


def as_text(value: Any) -> bytes | None:
    """A header's value for people; None if there is none."""
    if value is None or type(value) is bytes:
        return value
    try:
        return _text(b"", value)
    except Refused:
        return repr(value).encode()


def split(message: Message) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The content type (b"" if it has none) and the headers of a message that the codec wrote. Raises `Refused` if a
    name is too long for AMQP 0-9-1."""
    content_type = b""
    headers = message.headers
    if headers and headers[-1][0] == b"content-type":
        content_type, headers = headers[-1][1], headers[:-1]
    else:
        for i, (name, value) in enumerate(headers):
            if name == b"content-type":
                content_type, headers = value, headers[:i] + headers[i + 1 :]
                break
    if len(content_type) > _LONGEST:
        raise Refused(f"AMQP 0-9-1 can't carry a content type of {len(content_type)} bytes; use structured mode")
    for name, _ in headers:
        if len(name) > _LONGEST:
            raise Refused(f"AMQP 0-9-1 can't carry a header name of {len(name)} bytes; use structured mode")
    return content_type, headers
