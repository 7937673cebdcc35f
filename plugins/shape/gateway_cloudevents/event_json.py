"""Events as JSON text: lines for files, or a plain structured event for the wire.

`line` writes CloudEvents in the JSON format (CloudEvents 1.0.2, `formats/json-format.md`), for any software.

`dump` is for our own files: the same event is read back, attributes with their types, data byte for byte, key. What the
format can't express goes into members whose names no attribute can have, and only if needed: `key_base64`, `json_data`,
`other_attributes`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from gateway_json import json_text

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event

from . import jsonformat, jsonwrite
from .values import forbidden_character, is_text

OWN = frozenset({"key_base64", "json_data", "other_attributes"})
"""The members that the CloudEvents JSON format doesn't know."""

KEY = "keybase64"
"""The extension of a line that has the event's key, where `partitionkey` can't."""

_MEMBERS = OWN | {"data", "data_base64"}
_TAKEN = _MEMBERS | {KEY}
_SPACE = b" \t\r\n"
_encode = msgspec.json.Encoder().encode
_ONE_LINE = bytes.maketrans(b"\n\r", b"  ")  # between tokens only: in a string they are escaped
_any = msgspec.json.Decoder().decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def dump(event: Event) -> bytes:
    """The event as one line without its line break, lossless.

    Raises `ValueError` if an attribute can't be written as JSON text (a lone surrogate).
    """
    members = dict(event.attributes)
    if odd := {name: members.pop(name) for name in _TAKEN.intersection(event.attributes)}:
        members["other_attributes"] = odd
    if event.data is not None:
        name, value, read_as = _data(event, event.data, one_line=True)
        members[name] = value
        if event.json_data != read_as:
            members["json_data"] = event.json_data
    if event.key is not None:
        members["key_base64"] = b64encode(event.key).decode()
    return _write(members)


def line(event: Event) -> bytes:
    """The event as one line of the JSON format, without its line break. JSON data stays JSON, without line breaks
    between its tokens. The key becomes the extension `partitionkey` (CloudEvents, partitioning extension), or `KEY` if
    it is no text or the event has another `partitionkey`.

    Raises `ValueError` if an attribute can't be written as JSON text.
    """
    try:
        text = jsonwrite.encode(event if event.key is None else _with_key(event, event.key))
    except (Refused, TypeError, AttributeError):
        return dump(event)  # the event's version has no place for its data, or it is damaged
    return text.translate(_ONE_LINE) if b"\n" in text or b"\r" in text else text


def _with_key(event: Event, key: bytes) -> Event:
    with suppress(UnicodeDecodeError):
        text, present = key.decode(), event.attributes.get("partitionkey")
        if present == text and present:
            return event
        if text and present is None and not forbidden_character(text):
            return event.with_attributes(partitionkey=text)
    return event.with_attributes(**{KEY: b64encode(key).decode()})


def structured(event: Event) -> bytes:
    """The event as a structured CloudEvent without members of our own: what other software understands. Its data
    reads back byte for byte, its key is left out."""
    members = {name: value for name, value in event.attributes.items() if name not in _MEMBERS}
    if event.data is not None:
        name, value, _ = _data(event, event.data, one_line=False)
        members[name] = value
    return _write(members)


def load(text: bytes) -> Event:
    """Reads what `dump` or `line` wrote, or any structured event; it does not check that the event is valid.

    Raises `ValueError` if the text isn't a JSON object, or its data isn't base64.
    """
    try:
        raw = members(text)
    except ValueError as e:
        raise ValueError(f"not an event in JSON: {e}") from e
    try:
        key, flag = raw.pop("key_base64", None) or raw.pop(KEY, None), raw.pop("json_data", None)
        data, binary = raw.pop("data", None), raw.pop("data_base64", None)
        odd = raw.pop("other_attributes", None)
        attributes = {name: value for name, text in raw.items() if (value := _any(text)) is not None}
        if odd is not None:
            attributes.update({name: value for name, value in _any(odd).items() if value is not None})
        event = Event(attributes, key=None if key is None else b64decode(_any(key), validate=True))
        if binary is not None:
            event.data = b64decode(_any(binary), validate=True)
        elif data is not None:
            event.data, event.json_data = _read_data(attributes, bytes(data))
        if flag is not None and event.data is not None:
            event.json_data = bool(_any(flag))
    except (msgspec.MsgspecError, TypeError, AttributeError, RecursionError) as e:
        raise ValueError(f"not an event in JSON: {e}") from e
    return event


def members(text: bytes) -> dict[str, msgspec.Raw]:
    """The members of a JSON object, as JSON text. Raises `ValueError` if the text is none, or not UTF-8."""
    if not text.isascii():
        text.decode()
    try:
        return _members(text)
    except (msgspec.DecodeError, RecursionError):
        return {name: msgspec.Raw(value) for name, value in json_text.members(text).items()}


def _write(members: dict[str, Any]) -> bytes:
    try:
        return _encode(members)
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError) as e:
        raise ValueError(f"not to be written as JSON: {e}") from e


def _data(event: Event, data: bytes, *, one_line: bool) -> tuple[str, Any, bool]:
    """The member that holds the data, its value (readable text if that keeps every byte), and what `json_data` will be
    when it is read back."""
    media_type, declared = _media_type(event.attributes), _is_json(event.attributes)
    if declared or event.json_data:
        taken_for_text = not declared and media_type and data[:1] == b'"'
        if not taken_for_text and _embeds(data, one_line):
            return "data", msgspec.Raw(data), not declared
    elif media_type.startswith("text/") or media_type.endswith(("/xml", "+xml")):
        with suppress(UnicodeDecodeError):
            return "data", data.decode(), False
    return "data_base64", b64encode(data).decode(), False


def _read_data(attributes: dict[str, Any], raw: bytes) -> tuple[bytes, bool]:
    """Data and `json_data` (json-format.md section 3.1): a string is text if the media type isn't JSON."""
    if raw.startswith(b'"') and (binary := _of_older(attributes, raw)) is not None:
        return binary, False
    if _is_json(attributes):
        return raw, False
    if _media_type(attributes) and raw.startswith(b'"'):
        return jsonformat.string_of(msgspec.Raw(raw)).encode(), False
    return raw, True


def _of_older(attributes: dict[str, Any], raw: bytes) -> bytes | None:
    """Base64 in `data`, as the versions before 1.0 have binary data (0.3 spec.md, datacontentencoding; 0.2
    json-format.md section 3.1). The attribute that says so describes the JSON, so it is dropped with the JSON."""
    if attributes.get("specversion") == "0.3":
        if str(attributes.get("datacontentencoding")).lower() != "base64":
            return None
        del attributes["datacontentencoding"]
        return b64decode(_any(raw), validate=True)
    older = attributes.get("specversion") in ("0.1", "0.2") or "cloudEventsVersion" in attributes
    media_type = _media_type(attributes)
    if older and media_type and not _is_json(attributes) and not is_text(media_type):
        with suppress(ValueError):
            return b64decode(jsonformat.string_of(msgspec.Raw(raw)), validate=True)
    return None


def _embeds(data: bytes, one_line: bool) -> bool:
    """Whether the bytes can stand in JSON text as they are and be found again: valid, no space around them."""
    if not data or data[:1] in _SPACE or data[-1:] in _SPACE or (one_line and b"\n" in data):
        return False
    return json_text.embeds(data)


def _media_type(attributes: Mapping[str, Any]) -> str:
    """The media type of the data without its parameters, in lower case ("" if there is none). The attribute was
    called `contentType` in version 0.1 and `contenttype` in 0.2."""
    for name in ("datacontenttype", "contenttype", "contentType"):
        if isinstance(value := attributes.get(name), str):
            return value.partition(";")[0].strip().lower()
    return ""


def _is_json(attributes: Mapping[str, Any]) -> bool:
    media_type = _media_type(attributes)
    return media_type.endswith(("/json", "+json"))
