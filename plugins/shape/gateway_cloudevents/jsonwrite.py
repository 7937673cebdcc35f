"""Writes the JSON event format (json-format.md 1.0.2, section 3; for older versions theirs if it differs)."""

from __future__ import annotations

from typing import Any

import msgspec
from gateway_json.json_text import embeds
from msgspec import Raw

from gateway_core.contract.event import Event

from .jsonformat import declares_json, declares_text, fault, said
from .versions import Version, version_to_write

_encode = msgspec.json.Encoder().encode


def encode(event: Event) -> bytes:
    """The event as a JSON object: its attributes in order, then the data. JSON data is included unchanged, text as a
    string, anything else as Base64."""
    data = event.data
    try:
        if data is None:
            return _encode(event.attributes)
        return _encode({**event.attributes, **_data_member(event, data)})
    except (msgspec.MsgspecError, UnicodeError, TypeError, RecursionError) as e:
        raise fault(f"the event can't be written as JSON: {said(e)}", "2. Attributes") from e


def _data_member(event: Event, data: bytes) -> dict[str, Any]:
    attributes = event.attributes
    version = version_to_write(attributes)
    content_type = attributes.get(version.content_type)
    unsaid = event.json_data and (content_type is None or version.base64_by_type)
    if unsaid or (content_type is not None and declares_json[content_type]):
        if embeds(data):
            return {"data": Raw(data)}
    elif content_type is not None and declares_text[content_type]:
        try:
            return {"data": data.decode()}
        except UnicodeDecodeError:
            pass
    if version.base64_member:
        return {version.base64_member: data}
    if version.encoding:
        return {version.encoding: "base64", "data": data}  # 0.3 spec.md: set for binary data in a string
    return _base64_by_type(version, content_type, data)


def _base64_by_type(version: Version, content_type: str | None, data: bytes) -> dict[str, Any]:
    """For versions without a marker for Base64: the media type must be one whose strings are read as Base64."""
    if content_type is None:
        # without a type it would be read as JSON; this type is HTTP's default for bytes
        return {version.content_type: "application/octet-stream", "data": data}
    if declares_json[content_type] or declares_text[content_type]:
        kind = "JSON" if declares_json[content_type] else "text in UTF-8"
        detail = f"data is not {kind}, as {content_type!r} says, and version {version.name} can't hold it"
        raise fault(detail, "3.1. Special Handling of the data Attribute", "data")
    return {"data": data}
