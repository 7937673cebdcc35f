"""How a broker keeps events from being stored twice (`deduplicate`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Annotated, Any, Literal

from pydantic import Field

from .attribute_names import AttributeName
from .durations import YEAR_S, Duration
from .event import Event, text_of
from .normal_form import normal_attributes
from .options import Config

MOST_KEYS = 10_000_000


class DeduplicateConfig(Config):
    """Stores events with the same key once: of those that are accepted within the window, only the first. A sender that
    sends an event again gets the answer of a success. The channel must be able to do it (`log`)."""

    window: Annotated[Duration, Field(ge=1, le=YEAR_S)]
    """How long a key counts after its first event was accepted: a number of seconds, or with a unit, like `7d`, `12h`,
    `30m`."""
    key: Annotated[list[AttributeName], Field(min_length=1, max_length=8)] = ["source", "id"]
    """The attributes that make up the key. Events that lack one of them are stored each time. After a change of it, the
    keys of before no longer count."""
    on_conflict: Literal["accept_first", "refuse"] = "accept_first"
    """What happens to an event that has the key of an earlier one, but other attributes or data: `accept_first` treats
    it as any other duplicate, and counts it; `refuse` answers 409."""
    max_keys: Annotated[int, Field(ge=1000, le=100_000_000)] = MOST_KEYS
    """How many keys are kept. With more, the oldest are dropped first, and status says that the window is shorter."""


_HOPS = frozenset({"traceparent", "tracestate"})
"""Attributes that differ each time an event is sent."""


def key_reader(names: list[str]) -> Callable[[Event], str | None]:
    """What makes the key of an event of these attributes, as one text; None if the event lacks one of them."""
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
