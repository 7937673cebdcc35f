"""A fast path for JSON events with the same layout as the previous one.

The general path (`jsonformat`) reads any event, at the cost of several small objects per member. Most producers send
events with always the same members, so a decoder is created for exactly the members of the last event. It reads the
next event in one go, or fails; then the general path reads the event, and reports faults.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from keyword import iskeyword
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import asdict

from gateway_core.contract.errors import Refused

from .versions import Tests, Version

_MAX_LAYOUTS = 64  # creating a decoder costs as much as reading 50 events, so senders must not be able to force it
_MAX_MEMBERS = 32
_MAX_CHARACTERS = 512  # total length of all names
_WHITESPACE = b" \t\r\n"

JsonText = Any
"""JSON: bytes or a `Raw`. The type hints of msgspec call `Raw` a kind of bytes, which compiled code would rely on."""


class _Layout(NamedTuple):
    decode: Callable[[JsonText], Any]
    decode_array: Callable[[bytes], list[Any]]
    version: Version
    tests: Tests
    has_data: bool
    length: int  # minimum bytes of the object, without the values


class Layouts:
    """The cached decoders, and the one for the last event."""

    def __init__(self) -> None:
        self._current: _Layout | None = None
        self._known: dict[tuple[str, ...], _Layout | None] = {}

    def read(self, text: JsonText, size: int) -> tuple[dict[str, Any], Version, Raw | None] | None:
        """Attributes, version and data of a valid event; None if the general path must read it."""
        layout = self._current
        if layout is None:
            return None
        decode, _, version, tests, has_data, length = layout
        try:
            attributes = asdict(decode(text))
        except (msgspec.DecodeError, RecursionError):
            return None
        data: Raw | None = attributes.pop("data") if has_data else None
        joined = "".join(attributes.values())
        if attributes[version.specversion] != version.name or "\x7f" in joined:
            return None
        # The values have exactly as many characters as the text has bytes for them: so there are no duplicate members,
        # only ASCII, and no escapes, without which JSON can't contain control characters
        excess = size - length - len(joined) - (0 if data is None else len(data))
        if excess and excess != _whitespace(text) - _whitespace(joined.encode()) - _whitespace(data):
            return None
        try:
            version.check_values(attributes, tests)
        except Refused:
            return None  # the general path leaves an optional value out
        return attributes, version, data

    def read_array(self, text: bytes, most: int) -> tuple[list[tuple[dict[str, Any], Raw | None]], Version] | None:
        """Attributes, data and version of the events in an array, if all are valid and have the members of the last
        event. Else None, and the general path must read each."""
        layout = self._current
        if layout is None:
            return None
        try:
            structs = layout.decode_array(text)
        except (msgspec.DecodeError, RecursionError):
            return None
        if not 0 < len(structs) <= most:
            return None
        attributes = list(map(asdict, structs))
        data = [a.pop("data") for a in attributes] if layout.has_data else [None] * len(attributes)
        values = list(chain.from_iterable([a.values() for a in attributes]))
        joined = "".join(values)
        if "\x7f" in joined or not all(values):
            return None
        # as in `read`: each event has at least its minimum of bytes, so if the total is the minimum, each event's is
        # too
        excess = len(text) - (layout.length + 1) * len(attributes) - 1 - len(joined) - sum(map(_size, data))
        if excess and excess != _whitespace(text) - _whitespace(joined.encode()) - sum(map(_whitespace, data)):
            return None
        return (list(zip(attributes, data, strict=True)), layout.version) if _are_valid(attributes, layout) else None

    def learn(self, members: tuple[str, ...], version: Version) -> None:
        """Prepares for events with these members, all of whose attributes are text."""
        if members not in self._known:
            if len(self._known) >= _MAX_LAYOUTS or len(members) > _MAX_MEMBERS:
                return
            if sum(map(len, members)) > _MAX_CHARACTERS:
                return
            self._known[members] = _layout(members, version)
        self._current = self._known[members]


def _layout(members: tuple[str, ...], version: Version) -> _Layout | None:
    if any(not name.isidentifier() or iskeyword(name) for name in members):
        return None  # a struct can't have a field with that name
    fields = [(name, Raw if name == "data" else str) for name in members]
    struct = msgspec.defstruct("Layout", fields, forbid_unknown_fields=True)
    length = sum(map(len, members)) + 4 * len(members) + 1 + 2 * (len(members) - ("data" in members))
    tests = version.tests[tuple(name for name in members if name != "data")]
    one, many = msgspec.json.Decoder(struct).decode, msgspec.json.Decoder(list[struct]).decode  # type: ignore[valid-type]
    return _Layout(one, many, version, tests, "data" in members, length)


def _are_valid(attributes: list[dict[str, Any]], layout: _Layout) -> bool:
    """Whether the values are valid; each distinct value is checked once, however many events have it."""
    if set(map(itemgetter(layout.version.specversion), attributes)) != {layout.version.name}:
        return False
    return not any(test(value) for name, test in layout.tests for value in set(map(itemgetter(name), attributes)))


def _size(data: Raw | None) -> int:
    return 0 if data is None else len(data)


def _whitespace(text: JsonText) -> int:
    return 0 if text is None else len(text) - len(bytes(text).translate(None, _WHITESPACE))
