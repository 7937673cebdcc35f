"""Topic names built from an event's attributes."""

from __future__ import annotations

import re
from collections.abc import Callable

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, text_of

_PART = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile("[a-z0-9]+")
_LITERAL = re.compile(r"[A-Za-z0-9._-]*")
_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]")
MOST = 249


def checked(text: str) -> str:
    """Returns the template. Raises `ValueError` if it is invalid."""
    names = _PART.findall(text)
    if wrong := next((name for name in names if not _NAME.fullmatch(name)), None):
        raise ValueError(f"{{{wrong}}} is not an attribute name: use lower-case letters and digits")
    literal = _PART.sub("", text)
    if not text or not _LITERAL.fullmatch(literal) or text in (".", "..") or len(literal) > MOST:
        raise ValueError(
            "a topic name may have letters, digits, `.`, `_`, `-` and `{attribute}`, at most 249 characters"
        )
    return text


def topic_of(text: str) -> Callable[[Event], str] | None:
    """Returns a function that builds the topic name for an event, or None if the name is fixed. The function raises
    `Refused` if the event lacks an attribute."""
    parts = _PART.split(text)
    if len(parts) == 1:
        return None
    known: dict[tuple[str, ...], str] = {}

    def topic(event: Event) -> str:
        values = []
        for name in parts[1::2]:
            value = event.attributes.get(name)
            if value is None:
                raise Refused(f"the topic needs the attribute {name}, which the event does not have", attribute=name)
            values.append(text_of(value))
        found = known.get(tuple(values))
        if found is None:
            found = _filled(parts, values)
            if len(known) < 4096:
                known[tuple(values)] = found
        return found

    return topic


def _filled(parts: list[str], values: list[str]) -> str:
    pieces = list(parts)
    pieces[1::2] = [_FORBIDDEN.sub("_", value) for value in values]
    name = "".join(pieces)
    if not name or len(name) > MOST or name in (".", ".."):
        raise Refused(f"{name[:60]!r} is not a valid topic name")
    return name
