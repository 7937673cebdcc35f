"""One dead letter as one line: `{"id", "event", "key_base64", "position", "received", "trace"}`, or `{"id", "key",
"encrypted"}`. `position` is where the channel of this data directory has the event.

`event` is a structured CloudEvent with the facts among its attributes; `gateway_cloudevents.event_json` says how it
keeps every byte. `id` is a time in nanoseconds and a random suffix, both in hexadecimal: it does not change when others
are removed. `encrypted` has the rest, in base64, and `key` says under which key (`encryption`). A line is JSON in both
cases, so that one which a crash tore is recognized without a key.
"""

from __future__ import annotations

import hashlib
from random import Random
from typing import Any

import msgspec
from gateway_cloudevents import event_json

from gateway_core.contract.event import Event
from gateway_core.contract.moments import stamped, time_ns_of

from .encryption import Damaged, KeyMissing, Keys


class _Line(msgspec.Struct, omit_defaults=True):
    event: msgspec.Raw = msgspec.Raw(b"")
    id: str | None = None
    key: str = ""
    encrypted: bytes | None = None
    key_base64: str | None = None
    position: int = 0
    received: str | None = None
    trace: str | None = None


_random_bits = Random().getrandbits  # faster than `os.urandom`, which gives up Python's lock
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode


def write(event: Event, now_ns: int, keys: Keys | None = None, id_: str = "") -> bytes:
    """The line for an event, without the line break, encrypted if there are keys; with a new id unless one is given.
    Raises `ValueError` if it can't be written as JSON."""
    id_ = id_ or f"{now_ns:016x}{_random_bits(16):04x}"
    body: dict[str, Any] = {} if keys else {"id": id_}
    bare = event
    if event.key is not None:
        bare = Event(event.attributes, event.data, event.json_data)
        body["key_base64"] = msgspec.to_builtins(event.key)
    if event.position:
        body["position"] = event.position
    if event.received_ns:
        body["received"] = stamped(event.received_ns)
    if event.trace is not None:
        body["trace"] = event.trace
    body["event"] = msgspec.Raw(event_json.dump(bare))
    if keys is None:
        return _encode(body)
    return _encode({"id": id_, "key": keys.first, "encrypted": keys.encrypt(_encode(body), id_.encode())})


def read(line: bytes, keys: Keys | None = None, *, also_plain: bool = True) -> tuple[str, Event]:
    """Id and event of a line. Raises `Unreadable` if it is encrypted and can't be decrypted, or plain and must not be;
    `ValueError` if it is not a dead letter."""
    try:
        body = _decode(line)
        if body.encrypted is not None:
            id_ = body.id or ""
            body = _decode(_decrypted(body, keys))
            body.id = id_
        elif not also_plain:
            raise Unreadable("not encrypted; `also_plain: true` reads such lines, whoever wrote them")
        if not bytes(body.event):
            raise ValueError("not a dead letter: it has no event")
        event = event_json.load(bytes(body.event))
        if body.key_base64 is not None:
            event.key = msgspec.convert(body.key_base64, bytes)
        if body.received is not None:
            event.received_ns = _unix_ns(body.received)
        event.position = body.position
        event.trace = body.trace
    except (msgspec.MsgspecError, RecursionError) as e:
        raise ValueError(f"not a dead letter: {e}") from e
    return body.id or _digest(line), event


class Unreadable(ValueError):
    """A dead letter that these keys don't open. The text has no fact of the line but its key's id."""


def _decrypted(body: _Line, keys: Keys | None) -> bytes:
    try:
        if keys is None:
            raise KeyMissing
        return keys.decrypt(body.key, body.encrypted or b"", (body.id or "").encode())
    except KeyMissing:
        key = body.key if len(body.key) == 8 and body.key.isalnum() else "?"
        raise Unreadable(
            f"encrypted with the key {key}, which is not among the keys (`encrypt`, `--key-file`)"
        ) from None
    except Damaged:
        raise Unreadable("can't be decrypted: it was changed, or copied from another line") from None


def id_of(line: bytes) -> str | None:
    """The id of a line, None if it is not a dead letter."""
    try:
        body = _decode(line)
        return body.id or _digest(line) if body.encrypted is not None or bytes(body.event) else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def last_ns(event: Event) -> int:
    """When the last attempt of a dead letter ended, in Unix nanoseconds; 0 if nobody knows."""
    return _unix_ns(str(event.attributes.get("tidegatelast")))


def _digest(line: bytes) -> str:
    """The id for a line that was written without one by another program."""
    return hashlib.sha256(line).hexdigest()[:20]


def _unix_ns(text: str) -> int:
    """Unix nanoseconds of an RFC 3339 time; 0 if it is invalid (a line edited by hand)."""
    try:
        return time_ns_of(text)
    except ValueError:
        return 0
