"""How a broker keeps events from being stored twice (`deduplicate`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Annotated, Any, Literal

from pydantic import Field

from .attribute_names import AttributeName
from .durations import YEAR_S, Duration
from .event import Event, text_of
from .normal_form import normal_attributes
from .options import Config

MOST_KEYS = 10_000_000


class HeaderPart(Config):
    """A part of the key that senders write into a header of their requests, beside the event."""

    header: Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", max_length=100)]
    """The header's name, in any case, like `Idempotency-Key`. Only sources that get requests have headers (`http`). In
    a batch of several events, each has the header's value and its place in the batch."""


class DeduplicateConfig(Config):
    """Stores events with the same key once: of those that are accepted within the window, only the first. A sender that
    sends an event again gets the answer of a success. The channel must be able to do it (`log`)."""

    window: Annotated[Duration, Field(ge=1, le=YEAR_S)]
    """How long a key counts after its first event was accepted: a number of seconds, or with a unit, like `7d`, `12h`,
    `30m`."""
    key: Annotated[list[AttributeName | HeaderPart], Field(min_length=1, max_length=8)] = ["source", "id"]
    """The attributes (`source`) and headers (`{header: Idempotency-Key}`) that make up the key. Events that lack one of
    them are stored each time. After a change of it, the keys of before no longer count."""
    on_conflict: Literal["accept_first", "refuse"] = "accept_first"
    """What happens to an event that has the key of an earlier one, but other attributes or data: `accept_first` treats
    it as any other duplicate, and counts it; `refuse` answers 409, or 422 if the key has a header."""
    max_keys: Annotated[int, Field(ge=1000, le=100_000_000)] = MOST_KEYS
    """How many keys are kept. With more, the oldest are dropped first, and status says that the window is shorter."""


_HOPS = frozenset({"traceparent", "tracestate"})
"""Attributes that differ each time an event is sent."""


def key_headers(parts: Sequence[str | HeaderPart]) -> tuple[bytes, ...]:
    """The names of the headers in a key, in lower case: what `TellsHeaders` is told."""
    return tuple(part.header.lower().encode() for part in parts if isinstance(part, HeaderPart))


def part_names(parts: Sequence[str | HeaderPart]) -> list[str]:
    """The parts of a key as text, like `source` and `header:idempotency-key`."""
    return [f"header:{part.header.lower()}" if isinstance(part, HeaderPart) else part for part in parts]


def key_reader(parts: Sequence[str | HeaderPart]) -> Callable[[Event], str | None]:
    """What makes the key of an event of these parts, as one text; None if the event lacks one of them."""
    names = [part for part in parts if isinstance(part, str)]
    if len(names) == len(parts):
        return _of_attributes(names)
    prefix = "\0".join((*part_names(parts), "", ""))
    attributes_of = _of_attributes(names) if names else None

    def key_of(event: Event) -> str | None:
        headers = event.key_headers
        if headers is None or None in headers:
            return None
        text = "" if attributes_of is None else attributes_of(event)
        return None if text is None else "\0".join((prefix, *map(str, headers), text))

    return key_of


def _of_attributes(names: list[str]) -> Callable[[Event], str | None]:
    prefix = "\0".join((*names, "", ""))
    values_of = _values_of(names)

    def key_of(event: Event) -> str | None:
        attributes = event.attributes
        if attributes.get("specversion") != "1.0":
            attributes = normal_attributes(attributes)
        try:
            values = values_of(attributes)
        except KeyError:
            return None
        try:
            return prefix + "\0".join(values)
        except TypeError:  # numbers and booleans
            return prefix + "\0".join(map(text_of, values))

    return key_of


def _values_of(names: list[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    if len(names) > 1:
        return itemgetter(*names)
    (name,) = names
    return lambda attributes: (attributes[name],)


def unlike(event: Event, attributes: Mapping[str, Any], data: bytes | None) -> bool:
    """Whether an event has other content than the first with its key, of which these are the attributes and the data.
    Attributes that differ with each attempt are left out."""
    return data != event.data or content_of(attributes) != content_of(event.attributes)


def content_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes by which a duplicate is compared with the first."""
    return {name: value for name, value in attributes.items() if name not in _HOPS}
