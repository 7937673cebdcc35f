"""Writing the JSON event format (json-format.md 1.0.2, section 3)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from gateway_core.event import Event

from .jsonformat import declares_json, fault, said
from .memory import Memory
from .values import is_text
from .versions import V1_0, VERSIONS

_encode = msgspec.json.Encoder().encode
_raw = msgspec.json.Decoder(Raw).decode
_declares_text: Memory[str, bool] = Memory(is_text)


def encode(event: Event) -> bytes:
    """The event as a JSON object: its attributes in their order, then the data. JSON data goes in as it is, text as a
    string, all else as Base64."""
    data = event.data
    try:
        if data is None:
            return _encode(event.attributes)
        return _encode({**event.attributes, **_data_member(event, data)})
    except (msgspec.MsgspecError, UnicodeError, TypeError, RecursionError) as e:
        raise fault(f"the event can't be written as JSON: {said(e)}", "2. Attributes") from e


def _data_member(event: Event, data: bytes) -> dict[str, Any]:
    attributes = event.attributes
    version = VERSIONS.get(attributes.get("specversion", ""), V1_0)
    content_type = attributes.get(version.content_type)
    encoded = version.encoding in attributes
    if not encoded and (event.json_data if content_type is None else declares_json[content_type]):
        if _is_valid_json(data):
            return {"data": Raw(data)}
    elif encoded or (content_type is not None and _declares_text[content_type]):
        try:
            return {"data": data.decode()}
        except UnicodeDecodeError:
            pass
    if version.base64_member:
        return {version.base64_member: data}
    return {version.encoding: "base64", "data": data}  # 0.3 spec.md: it must be set for binary data in a string


def _is_valid_json(data: bytes) -> bool:
    try:
        if not data.isascii():
            data.decode()
        _raw(data)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    return True
