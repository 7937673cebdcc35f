"""One dead letter as one line: `{"id", "event", "key_base64", "received", "trace"}`.

`event` is a structured CloudEvent with the facts among its attributes; `gateway_cloudevents.event_json` says how it
keeps every byte. `id` is a time in nanoseconds and a random suffix, both in hexadecimal: it does not change when others
are removed.
"""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from typing import Any

import msgspec
from gateway_cloudevents import event_json

from gateway_core.contract.event import Event


class _Line(msgspec.Struct, omit_defaults=True):
    event: msgspec.Raw
    id: str | None = None
    key_base64: str | None = None
    received: str | None = None
    trace: str | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode


def write(event: Event, now_ns: int) -> bytes:
    """The line for an event, without the line break. Raises `ValueError` if it can't be written as JSON."""
    body: dict[str, Any] = {"id": f"{now_ns:016x}{os.urandom(2).hex()}"}
    bare = event
    if event.key is not None:
        bare = Event(event.attributes, event.data, event.json_data)
        body["key_base64"] = msgspec.to_builtins(event.key)
    if event.received_ns:
        body["received"] = _rfc3339(event.received_ns)
    if event.trace is not None:
        body["trace"] = event.trace
    body["event"] = msgspec.Raw(event_json.dump(bare))
    return _encode(body)


def read(line: bytes) -> tuple[str, Event]:
    """Id and event of a line. Raises `ValueError` if it is not a dead letter."""
    try:
        body = _decode(line)
        event = event_json.load(bytes(body.event))
        if body.key_base64 is not None:
            event.key = msgspec.convert(body.key_base64, bytes)
        if body.received is not None:
            event.received_ns = _unix_ns(body.received)
        event.trace = body.trace
    except msgspec.MsgspecError as e:
        raise ValueError(f"not a dead letter: {e}") from e
    return body.id or _digest(line), event


def id_of(line: bytes) -> str | None:
    """The id of a line, None if it is not a dead letter."""
    try:
        return _decode(line).id or _digest(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _digest(line: bytes) -> str:
    """The id for a line that was written without one by another program."""
    return hashlib.sha256(line).hexdigest()[:20]


def _rfc3339(ns: int) -> str:
    seconds, rest = divmod(ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}.{rest:09d}Z"


def _unix_ns(text: str) -> int:
    """Unix nanoseconds of an RFC 3339 time; 0 if it is invalid (a line edited by hand)."""
    head, _, tail = text.removesuffix("Z").partition(".")
    try:
        seconds = int(datetime.fromisoformat(head).replace(tzinfo=UTC).timestamp())
        return seconds * 1_000_000_000 + int(tail.ljust(9, "0")[:9] or 0)
    except ValueError:
        return 0
