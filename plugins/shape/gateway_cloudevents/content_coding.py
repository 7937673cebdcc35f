"""Content codings of messages: gzip is undone, as an event has no attribute that would say so of its data.

HTTP removes the coding of a request itself (RFC 9110 section 8.4). In AMQP it is a property of the message, and
elsewhere a header `content-encoding` by custom.
"""

from __future__ import annotations

from typing import Any

from gateway_serving.content_coding import gunzipped

from gateway_core.contract.event import Message

CODING = "content-encoding"
"""A key among attribute names for a content coding; the dash makes it unique."""
MOST_BYTES = 32 * 1024 * 1024
"""The longest body, decompressed."""
UNKNOWN = "contentencoding"
"""The extension that names a coding which is not undone."""

_NONE = frozenset(("", "identity", "binary", "7bit", "8bit", "utf-8", "utf8", "us-ascii", "ascii"))
"""What clients write for "not compressed"; some AMQP clients take the property for the place of the charset."""
_GZIP = frozenset(("gzip", "x-gzip"))
_MAGIC = b"\x1f\x8b"


def decoded(message: Message, attributes: dict[str, Any]) -> Message:
    """The message without its coding, which is removed from `attributes`. A coding that is not gzip stays, as the
    attribute `UNKNOWN`, so that subscribers can undo it. A body that is no gzip, whatever its header says, is left as
    it is: some software decompresses a body and forgets the header. Raises `Refused`."""
    coding = attributes.pop(CODING).strip().lower()
    if coding in _NONE:
        return message
    if coding not in _GZIP:
        attributes.setdefault(UNKNOWN, coding)
        return message
    if message.body is None or not message.body.startswith(_MAGIC):
        return message
    plain = Message(message.headers, gunzipped(message.body, MOST_BYTES), message.key, message.method, message.url)
    plain.peer = message.peer
    return plain
