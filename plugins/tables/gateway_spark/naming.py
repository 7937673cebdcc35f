"""Names of tables per event type: valid in all common file systems and object stores."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from urllib.parse import quote, unquote

TYPE = "{type}"
OTHER = "other"
"""Stands for the types beyond `max_tables`, which only have a quarantine table."""
UNKNOWN = "unknown"
"""Stands for rows that are not events, which only have a quarantine table."""
QUARANTINE = "_quarantine"
_LENGTH = 150
_DEVICES = {"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(10))}  # Windows'


def name_of(event_type: str, taken: Collection[str] = ()) -> str:
    """The name for an event type's table: percent-encoded except for ASCII letters, digits and `-._`; a long name is
    cut and gets a hash of the whole. No two types have the same name, even ignoring case, if `taken` has the names of
    the others; none has the name of a quarantine table."""
    name = quote(event_type, safe="").replace("~", "%7E") or "%"
    if name[0] in "._":  # Spark would treat it as hidden
        name = _encoded(name[0]) + name[1:]
    if name[-1] == "." or name.lower() in (OTHER, UNKNOWN) or name.lower().endswith(QUARANTINE):
        name = name[:-1] + _encoded(name[-1])
    if name.partition(".")[0].lower() in _DEVICES:
        name = _encoded(name[0]) + name[1:]
    if len(name) > _LENGTH:
        name = f"{name[:_LENGTH]}-{_hash(event_type)}"
    if name.lower() in {t.lower() for t in taken}:
        name = f"{name[:_LENGTH]}-{_hash(event_type)}"
    return name


def type_of(name: str) -> str:
    """The event type of a table's name, unless it was cut."""
    return unquote(name)


def quarantine_of(table: str, quarantine: str, name: str) -> str:
    """The location of the quarantine table for the table `name` of a job with these locations."""
    return (quarantine or table + QUARANTINE).replace(TYPE, name)


def _encoded(char: str) -> str:
    return f"%{ord(char):02X}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
