"""Reads one value from JSON text, by a singular JSONPath query (RFC 9535 section 2.3.5.1): `$.a.b[0]['c d']`.

A singular query only has names and indexes, so it finds at most one value. The rest of the text is skipped without
creating objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

PathStep = Callable[[bytes | Raw], Any]

_BLANK = r"[ \t\n\r]*"
_SHORT = r"\.([A-Za-z_\u0080-\ud7ff\ue000-\U0010ffff][0-9A-Za-z_\u0080-\ud7ff\ue000-\U0010ffff]*)"
_DOUBLE = r'"((?:[^"\\\x00-\x1f]|\\.)*)"'
_SINGLE = r"'((?:[^'\\\x00-\x1f]|\\.)*)'"
_INDEX = r"(0|-?[1-9][0-9]{0,15})"
_SEGMENT = rf"{_BLANK}(?:{_SHORT}|\[{_BLANK}(?:{_DOUBLE}|{_SINGLE}|{_INDEX}){_BLANK}\])"
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')  # valid names for fields of a msgspec struct

_string = msgspec.json.Decoder(str).decode
_object = msgspec.json.Decoder(dict[str, Raw]).decode
_array = msgspec.json.Decoder(list[Raw]).decode


def parse(path: str) -> list[str | int]:
    """The names and indexes of a query. Raises `ValueError` if it is not a singular query."""
    if not path.startswith("$"):
        raise ValueError("a JSONPath begins with `$`, which stands for the whole data")
    found: list[str | int] = []
    at = 1
    while at < len(path):
        segment = re.compile(_SEGMENT).match(path, at)  # most gateways need none, and it takes milliseconds
        if segment is None:
            rest = path[at : at + 30]
            raise ValueError(f"{rest!r} is neither `.name`, `['name']` nor `[0]`; a key needs a path to one value")
        short, double, single, index = segment.groups()
        if index is not None:
            found.append(int(index))
        elif short is not None:
            found.append(short)
        else:
            found.append(_name(double if single is None else single.replace(r"\'", "'").replace('"', r"\"")))
        at = segment.end()
    return found


def _name(text: str) -> str:
    """A quoted name with JSON escapes."""
    try:
        return _string(f'"{text}"'.encode())
    except (msgspec.DecodeError, UnicodeError) as e:
        raise ValueError(f"{text!r} is not a name: {e}") from e


def reader(path: str) -> Callable[[bytes], Raw | None]:
    """Returns a function that reads the value's JSON text, or None if there is no such value or the data up to it is
    not JSON."""
    parts = parse(path)
    steps = [_element(part) if isinstance(part, int) else _member(part) for part in parts]

    def read(data: bytes) -> Raw | None:
        found: bytes | Raw = data
        try:
            for step in steps:
                found = step(found)
            return msgspec.json.decode(found, type=Raw)
        except LookupError:
            return None
        except (msgspec.DecodeError, RecursionError):
            return _slowly(parts, data)

    return read


def _slowly(parts: list[str | int], data: bytes) -> Raw | None:
    """The value in text that msgspec refuses: it may be JSON all the same."""
    from gateway_json import json_text

    try:
        found = json_text.checked(data)
        for part in parts:
            found = json_text.elements(found)[part] if isinstance(part, int) else json_text.members(found)[part]
    except (ValueError, LookupError):
        return None
    return Raw(found)


def _member(name: str) -> PathStep:
    if not _PLAIN.fullmatch(name):
        return lambda text: _object(text)[name]
    made = msgspec.defstruct("Object", [("value", Raw | UnsetType, UNSET)], rename={"value": name})
    decode: PathStep = msgspec.json.Decoder(made).decode

    def step(text: bytes | Raw) -> Any:
        value = decode(text).value
        if value is UNSET:
            raise KeyError(name)
        return value

    return step


def _element(index: int) -> PathStep:
    return lambda text: _array(text)[index]
