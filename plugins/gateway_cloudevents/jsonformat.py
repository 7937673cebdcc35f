"""The JSON event format (json-format.md 1.0.2): structured mode's one event, batch mode's array of them.

`data` is never parsed: its JSON text is kept byte by byte. That is why members are first read as raw JSON.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Raw

from gateway_core.errors import Refused
from gateway_core.event import Event

from .memory import Memory
from .values import forbidden_character, is_json, is_text
from .versions import V1_0, VERSIONS, Version, version_of

MAX_BATCH = 10_000  # events in one message

_DOCUMENT = "CloudEvents 1.0.2 json-format.md"
_MAX_INTEGER = 2**31
_WHITESPACE = b" \t\r\n"

_object = msgspec.json.Decoder(dict[str, Raw]).decode
_array = msgspec.json.Decoder(list[Raw]).decode
_values = msgspec.json.Decoder(list[Any]).decode
_string = msgspec.json.Decoder(str).decode
_base64 = msgspec.json.Decoder(bytes).decode
_raw = msgspec.json.Decoder(Raw).decode
_encode = msgspec.json.Encoder().encode

_declares_json: Memory[str, bool] = Memory(is_json)
_declares_text: Memory[str, bool] = Memory(is_text)


def decode(body: bytes, key: bytes | None = None) -> Event:
    """The event of a JSON object. Raises `Refused`."""
    _check_utf8(body)
    return _event(body, len(body), key)


def decode_batch(body: bytes) -> list[Event]:
    """The events of a JSON array: all, or `Refused` naming the index (from 0) of the first that is none."""
    _check_utf8(body)
    try:
        items = _array(body)
    except (msgspec.DecodeError, RecursionError) as e:
        raise _fault(f"the body is not a JSON array of events: {_said(e)}", "4. JSON Batch Format") from e
    if len(items) > MAX_BATCH:
        detail = f"the batch has {len(items)} events; at most {MAX_BATCH} are taken at once"
        raise Refused(detail, status=413, rule=f"{_DOCUMENT}, 4. JSON Batch Format")
    events = []
    for item in items:
        try:
            events.append(_event(item, len(item), None))
        except Refused as e:
            detail = f"event {len(events)} of the batch: {e.detail}"
            raise Refused(detail, status=e.status, title=e.title, rule=e.rule, attribute=e.attribute) from e
    return events


def encode(event: Event) -> bytes:
    """The event as a JSON object: its attributes in their order, then the data."""
    data = event.data
    try:
        if data is None:
            return _encode(event.attributes)
        return _encode({**event.attributes, **_data_member(event, data)})
    except (msgspec.MsgspecError, UnicodeError, TypeError, RecursionError) as e:
        raise _fault(f"the event can't be written as JSON: {_said(e)}", "2. Attributes") from e


# -- reading ------------------------------------------------------------------------------------------------------


def _event(text: bytes | Raw, size: int, key: bytes | None) -> Event:
    try:
        members = _object(text)
        if "" in members:
            raise _fault("an attribute has an empty name", "2. Attributes")
        # {"name":value,…} is 4 bytes a member and 1 more, besides names and values, where nothing is there twice
        least = len("".join(members)) + len(b"".join(members.values())) + 4 * len(members) + 1
        if least != size:
            _check_duplicates(bytes(text), members)
        data = members.pop("data", None)
        binary = members.pop("data_base64", None)
        values = _values(b"[%b]" % b",".join(members.values()))
    except (msgspec.DecodeError, RecursionError) as e:
        raise _fault(f"not a JSON object of an event: {_said(e)}", "3. Envelope") from e
    attributes = dict(zip(members, values, strict=True))
    try:
        clean = "".join(values).isprintable()
    except TypeError:
        clean = False
    version = version_of(attributes)
    names = version.good_names
    if not names.keys() >= attributes.keys():
        for name in attributes:
            names[name]
    if not clean:
        attributes = _checked(attributes, version)
    version.check(attributes)
    if data is None and binary is None:
        return Event(attributes, None, False, key)
    return _with_data(attributes, version, data, binary, key)


def _with_data(
    attributes: dict[str, Any], version: Version, data: Raw | None, binary: Raw | None, key: bytes | None
) -> Event:
    if binary is not None and bytes(binary) != b"null":
        if data is not None:
            raise _fault("data and data_base64 are both there", "3.1.1. Payload Serialization", "data_base64")
        return Event(attributes, _decoded(binary, "data_base64"), False, key)
    if data is None:
        return Event(attributes, None, False, key)
    if version.encoding and attributes.get(version.encoding, "").lower() == "base64":
        return Event(attributes, _decoded(data, "data"), False, key)
    content_type = attributes.get(version.content_type)
    if content_type is None:
        return Event(attributes, bytes(data), True, key)
    if _declares_json[content_type]:
        return Event(attributes, bytes(data), False, key)
    return Event(attributes, _text(data, content_type), False, key)


def _text(data: Raw, content_type: str) -> bytes | None:
    try:
        return _string(data).encode()
    except (msgspec.DecodeError, RecursionError) as e:
        if bytes(data) == b"null":
            return None
        detail = f"data is not a string, although its content type {content_type!r} is not JSON"
        raise _fault(detail, "3.1.2. Payload Deserialization", "data") from e


def _decoded(text: Raw, member: str) -> bytes:
    try:
        return _base64(text)
    except (msgspec.DecodeError, RecursionError) as e:
        raise _fault(f"{member} is not a string of Base64", "3.1.2. Payload Deserialization", member) from e


def _checked(attributes: dict[str, Any], version: Version) -> dict[str, Any]:
    """The attributes without those that are null (section 2.2), all values checked."""
    checked = {}
    for name, value in attributes.items():
        if value is None:
            continue
        if type(value) is str:
            if character := forbidden_character(value):
                raise _fault(f"the value of {name} contains {character}, which no attribute may have", "2.2", name)
        elif version.is_defined(name):
            raise _fault(f"the value of {name} is not a string", "2.2. Type System Mapping", name)
        elif type(value) is int:
            if not -_MAX_INTEGER <= value < _MAX_INTEGER:
                raise _fault(f"the value of {name} is not in the range of 32 bits", "2.2. Type System Mapping", name)
        elif type(value) is not bool:
            raise _fault(
                f"the value of {name} is neither a string, a whole number nor a boolean",
                "2.2. Type System Mapping",
                name,
            )
        checked[name] = value
    return checked


def _check_utf8(body: bytes) -> None:
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as e:
            raise _fault(f"the body is not UTF-8 (byte {e.start})", "1. Introduction") from e


def _check_duplicates(text: bytes, members: dict[str, Raw]) -> None:
    """Raises `Refused` where a member is there twice. Whitespace is discounted first; only what is still longer than
    it must be (escapes in names, or duplicates) is read once more by a parser that tells."""
    names = "".join(members)
    values = b"".join(members.values()).translate(None, _WHITESPACE)
    stripped = text.translate(None, _WHITESPACE)
    if len(names) + len(values) + 4 * len(members) + 1 == len(stripped) or (not members and len(stripped) == 2):
        return
    seen: set[str] = set()
    for name in _top_level_names(text):
        if name in seen:
            raise _fault(f"member {name[:100]!r} is there more than once", "3. Envelope", name[:100])
        seen.add(name)


def _top_level_names(text: bytes) -> list[str]:
    # the hook is called for inner objects first, so what it leaves is the outermost
    found: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> None:
        found[:] = [name for name, _ in items]

    json.loads(text, object_pairs_hook=pairs, parse_int=_ignored, parse_float=_ignored)
    return found


def _ignored(text: str) -> None:
    return None


# -- writing ------------------------------------------------------------------------------------------------------


def _data_member(event: Event, data: bytes) -> dict[str, Any]:
    attributes = event.attributes
    version = VERSIONS.get(attributes.get("specversion", ""), V1_0)
    content_type = attributes.get(version.content_type)
    if event.json_data if content_type is None else _declares_json[content_type]:
        if _is_valid_json(data):
            return {"data": Raw(data)}
    elif content_type is not None and _declares_text[content_type]:
        try:
            return {"data": data.decode()}
        except UnicodeDecodeError:
            pass
    return {version.base64_member or "data": data}


def _is_valid_json(data: bytes) -> bool:
    try:
        if not data.isascii():
            data.decode()
        _raw(data)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    return True


def _said(error: BaseException) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _fault(detail: str, section: str, attribute: str = "") -> Refused:
    return Refused(detail, rule=f"{_DOCUMENT}, {section}", attribute=attribute)
