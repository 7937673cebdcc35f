"""Converts events between Fn's 0.1 names and CloudEvents 1.0.

Every attribute has a counterpart, and data stays byte for byte. What 1.0 does not allow changes its form: a map becomes
compact JSON text, an extension's name becomes lower case without anything but letters and digits.
"""

from __future__ import annotations

import re
from typing import Any

from gateway_core.contract.event import Event

from .names import DEADLINE, EXTENSIONS, MAPS, VERSION, compact, extension, under_fn_names

# names in 1.0 -> names in earlier drafts and 0.1
_SAME = (
    ("type", ("type", "eventType")),
    ("source", ("source",)),
    ("id", ("id", "eventID")),
    ("time", ("time", "eventTime")),
    ("dataschema", ("dataschema", "schemaurl", "schemaURL")),
    ("datacontenttype", ("datacontenttype", "contenttype", "contentType")),
)
_FN_NAMES = {
    "type": "eventType",
    "source": "source",
    "id": "eventID",
    "time": "eventTime",
    "dataschema": "schemaURL",
    "datacontenttype": "contentType",
}
TYPE_VERSION = "eventTypeVersion"
CORE = frozenset({VERSION, TYPE_VERSION, EXTENSIONS, *_FN_NAMES.values()})
"""The attributes of 0.1; all others are extensions."""

_NOT_IN_NAMES = re.compile("[^a-z0-9]")


def converted(event: Event, version: str) -> Event:
    """The event in version "0.1" (under Fn's names) or "1.0"; the same event if it already has that version, or for
    "as-is"."""
    if version == "0.1" and not under_fn_names(event):
        return _with(event, _to_fn(event))
    if version == "1.0" and event.attributes.get("specversion") != "1.0":
        return _with(event, _to_1_0(event))
    return event


def _with(event: Event, attributes: dict[str, Any]) -> Event:
    return Event(attributes, event.data, event.json_data, event.key, event.received_ns, event.position, event.trace)


def _shared(attributes: dict[str, Any]) -> dict[str, Any]:
    """Removes and returns the attributes that both versions have, by their 1.0 names."""
    found: dict[str, Any] = {}
    for name, spellings in _SAME:
        for spelling in spellings:
            if spelling in attributes:
                found.setdefault(name, attributes.pop(spelling))
    return found


def _to_fn(event: Event) -> dict[str, Any]:
    rest = {n: v for n, v in event.attributes.items() if n not in ("specversion", "datacontentencoding")}
    shared = _shared(rest)
    made: dict[str, Any] = {VERSION: "0.1"}
    if (type_version := rest.pop(TYPE_VERSION.lower(), None)) is not None:
        made[TYPE_VERSION] = type_version
    made |= {_FN_NAMES[name]: value for name, value in shared.items()}
    for name in (DEADLINE, *MAPS):
        if name.lower() in rest:
            rest[name] = extension(event, name)
            del rest[name.lower()]
    return made | ({EXTENSIONS: rest} if rest else {})


def _to_1_0(event: Event) -> dict[str, Any]:
    rest = {n: v for n, v in event.attributes.items() if n not in (VERSION, "specversion", "datacontentencoding")}
    rest |= rest.pop(EXTENSIONS, None) or {}
    made = {"specversion": "1.0", **_shared(rest)}
    # names that stay as they are first, so that no other takes their place
    for name, value in sorted(rest.items(), key=lambda item: _NOT_IN_NAMES.search(item[0]) is not None):
        plain = _NOT_IN_NAMES.sub("", name.lower())
        if plain and value is not None:
            made.setdefault(plain, value if isinstance(value, str | bool) or _is_integer(value) else compact(value))
    return made


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and -(2**31) <= value < 2**31
