"""Data as a JSON value of an event in version 0.1, which has one member for it and no word for Base64.

By the media type: JSON is the value itself; text is a string; everything else is Base64 in a string (CloudEvents 0.1,
JSON format, section 3.1). Where there is no media type, data is JSON.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import Any

import msgspec

from gateway_core.errors import Refused

BYTES = "application/octet-stream"
RULE = "CloudEvents 0.1 json-format.md, section 3.1"

_TEXT = frozenset({"xml", "javascript", "ecmascript", "x-www-form-urlencoded", "yaml", "toml", "graphql", "sql"})
_CHARSET = re.compile(r";[ \t]*charset=\"?([^\";\s]+)", re.IGNORECASE)
_any = msgspec.json.Decoder().decode


def written(data: bytes, content_type: str | None, json_data: bool) -> tuple[Any, str | None]:
    """The value of `data` and the content type that goes with it. Raises `Refused` where the data isn't what its type
    says."""
    if content_type is None:
        if json_data or _is_json_text(data):
            return _raw(data, content_type), None
        return b64encode(data).decode(), BYTES
    if is_json(content_type):
        return _raw(data, content_type), content_type
    if json_data and data[:1] != b'"' and _is_json_text(data):
        return msgspec.Raw(data), content_type
    if not _is_text(content_type):
        return b64encode(data).decode(), content_type
    try:
        return data.decode(_charset(content_type)), content_type
    except (UnicodeDecodeError, LookupError) as e:
        raise _fault(f"the data is not text as {content_type!r} says: {e}") from e


def read(value: bytes, content_type: str | None) -> tuple[bytes, bool]:
    """Data and `json_data` of a JSON value. Raises `Refused`."""
    if content_type is None or (not is_json(content_type) and value[:1] != b'"'):
        return value, True
    if is_json(content_type):
        return value, False
    text: str = _any(value)
    try:
        if _is_text(content_type):
            return text.encode(_charset(content_type)), False
        return b64decode(text, validate=True), False
    except (ValueError, LookupError) as e:
        how = "text" if _is_text(content_type) else "Base64"
        raise _fault(f"data of type {content_type!r} must be a string of {how}: {e}") from e


def is_json(media_type: str) -> bool:
    """Whether the type declares JSON: `*/json` or `*/*+json`."""
    return _essence(media_type).endswith(("/json", "+json"))


def _essence(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _is_text(media_type: str) -> bool:
    kind, _, subtype = _essence(media_type).partition("/")
    return kind == "text" or subtype in _TEXT or subtype.endswith(("+xml", "+yaml"))


def _charset(media_type: str) -> str:
    found = _CHARSET.search(media_type)
    return found[1] if found else "utf-8"


def _is_json_text(data: bytes) -> bool:
    try:
        _any(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _raw(data: bytes, content_type: str | None) -> msgspec.Raw:
    if not _is_json_text(data):
        raise _fault(f"the data is not JSON as {content_type or 'the event'!r} says")
    return msgspec.Raw(data)


def _fault(detail: str) -> Refused:
    return Refused(detail, attribute="data", rule=RULE)
