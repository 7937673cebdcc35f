"""The normal form of an event: what policies, filters, key mappers and marks go by, whatever the event's version.

It has the names of CloudEvents 1.0, so that `type` is the type of every event. An event of 1.0 is its own normal form.
That of an older event has, beside its own names:

* the names of 1.0 for its context attributes (`type` for `eventType`, `datacontenttype` for `contenttype`, …);
* for 0.1 as it was released: what is in `extensions`, and every other name, in lower case (`authid` for `AuthID`).

Codecs refuse events in which two attributes would have one name in this form.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from .event import Event

EXTENSIONS = "extensions"
"""The attribute of released 0.1 that holds its extensions."""
RELEASED = "cloudEventsVersion"
"""The attribute that tells an event of released 0.1."""

_NOT_IN_NAMES = re.compile("[^a-z0-9]")

RENAMED: Mapping[str, str] = {
    RELEASED: "specversion",
    "eventID": "id",
    "eventType": "type",
    "eventTime": "time",
    "contentType": "datacontenttype",
    "contenttype": "datacontenttype",
    "schemaURL": "dataschema",
    "schemaurl": "dataschema",
}
"""Context attributes of older versions by the names that 1.0 has for them."""


def normal_form(event: Event) -> Event:
    """The event in normal form: the event itself unless its version is older than 1.0. It shares the data, and is
    only to be looked at."""
    if event.attributes.get("specversion") == "1.0":
        return event
    found = Event(
        normal_attributes(event.attributes), event.data, event.json_data, event.key, event.received_ns, event.position
    )
    found.trace, found.identity = event.trace, event.identity
    return found


def normal_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes of `normal_form`: these themselves unless the version is older than 1.0."""
    if attributes.get("specversion") == "1.0":
        return attributes
    found = dict(attributes)
    if RELEASED in attributes and "specversion" not in attributes:
        extensions = attributes.get(EXTENSIONS)
        if isinstance(extensions, Mapping):
            found.update((normal_name(str(name)), value) for name, value in extensions.items())
        found.update((normal_name(name), value) for name, value in attributes.items() if name != EXTENSIONS)
    else:
        found.update((RENAMED[name], attributes[name]) for name in ("contenttype", "schemaurl") if name in attributes)
    return found


def normal_name(name: str) -> str:
    """The name that an attribute or extension of released 0.1 has in normal form."""
    return RENAMED.get(name) or name.casefold()


def letters_of(name: str) -> str:
    """What is left of a name where only a-z and 0-9 may be in names: `authid` of `Auth-ID`."""
    return _NOT_IN_NAMES.sub("", normal_name(name))


def without_names(attributes: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """A copy of the attributes without these (names of the normal form), however an older version spells them
    (`Auth-ID`), and whether or not they are in `extensions`."""
    found = {name: value for name, value in attributes.items() if name not in names}
    if RELEASED not in found or "specversion" in found:
        return found
    found = {name: value for name, value in found.items() if letters_of(name) not in names}
    if isinstance(inside := found.get(EXTENSIONS), Mapping):
        kept = {name: value for name, value in inside.items() if letters_of(str(name)) not in names}
        if kept:
            found[EXTENSIONS] = kept
        else:
            del found[EXTENSIONS]  # 0.1 allows no empty one
    return found
