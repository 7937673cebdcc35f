"""Topic names made from an event's attributes."""

from __future__ import annotations

import re
from collections.abc import Callable

from gateway_core.errors import Refused
from gateway_core.event import Event, text_of

_PART = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile("[a-z0-9]+")
_LITERAL = re.compile(r"[A-Za-z0-9._-]*")
_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]")
MOST = 249


def checked(text: str) -> str:
    """The template itself. Raises `ValueError` where it is none."""
    names = _PART.findall(text)
    if wrong := next((name for name in names if not _NAME.fullmatch(name)), None):
        raise ValueError(f"{{{wrong}}} names no attribute: lower-case letters and digits only")
    literal = _PART.sub("", text)
    if not text or not _LITERAL.fullmatch(literal) or text in (".", "..") or len(literal) > MOST:
        raise ValueError("a topic's name has letters, digits, `.`, `_` and `-` only, 249 at most, and `{attribute}`")
    return text


def topic_of(text: str) -> Callable[[Event], str] | None:
    """What makes the topic's name for an event; None where the text is always the name. The function raises `Refused`
    where the event lacks an attribute."""
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
        raise Refused(f"{name[:60]!r} can't be a topic's name")
    return name
