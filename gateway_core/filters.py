"""Filters that the core itself needs, and that plugins build on: a trigger's attributes, and filters joined by AND.

An attribute's value is compared as the text that headers carry (`text_of`): an event in binary mode and the same event
in structured mode match the same filters. Hints (`Filter.exact`, `Filter.prefix`) speak of that text too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .event import Event, text_of
from .interfaces import Filter

Matches = Callable[[Event], bool]


def _always(event: Event) -> bool:
    return True


_MATCH_ALL = Filter(_always)


def match_all() -> Filter:
    """The filter that every event matches."""
    return _MATCH_ALL


def has_value(name: str, value: str) -> Matches:
    """Whether the attribute is there and its text equals `value`."""

    def matches(event: Event) -> bool:
        found = event.attributes.get(name)
        return found == value if type(found) is str else found is not None and text_of(found) == value

    return matches


def is_present(name: str) -> Matches:
    """Whether the attribute is there, with any value."""

    def matches(event: Event) -> bool:
        return name in event.attributes

    return matches


def every(conditions: Sequence[Matches]) -> Matches:
    """Whether all conditions hold; true where there are none."""
    if not conditions:
        return _always
    if len(conditions) == 1:
        return conditions[0]
    if len(conditions) == 2:
        first, second = conditions
        return lambda event: first(event) and second(event)
    fixed = tuple(conditions)

    def matches(event: Event) -> bool:
        for condition in fixed:  # noqa: SIM110 - `all` with a generator costs twice as much
            if not condition(event):
                return False
        return True

    return matches


def attributes_filter(attributes: Mapping[str, str]) -> Filter:
    """The filter of a trigger's `filter:` key: every attribute equals its value; an empty value asks only that the
    attribute is there; no attributes match every event (Knative Broker specification, "Trigger filtering")."""
    if not attributes:
        return _MATCH_ALL
    conditions = [has_value(n, v) if v else is_present(n) for n, v in attributes.items()]
    return Filter(every(conditions), exact=tuple((n, v) for n, v in attributes.items() if v))


def indexable(filter: Filter) -> bool:
    """Whether a filter's hints spare it from being asked for every event."""
    if filter.exact or filter.prefix:
        return True
    return bool(filter.alternatives) and all(map(indexable, filter.alternatives))


def all_of(filters: Sequence[Filter]) -> Filter:
    """The filter that an event matches if it matches all of these. Their hints hold together; of several sets of
    alternatives the shortest that can be indexed is kept, since each alone is a condition of a match."""
    if not filters:
        return _MATCH_ALL
    if len(filters) == 1:
        return filters[0]
    choices = [f.alternatives for f in filters if f.alternatives and all(map(indexable, f.alternatives))]
    return Filter(
        every([f.matches for f in filters]),
        exact=_joined([f.exact for f in filters]),
        prefix=_joined([f.prefix for f in filters]),
        alternatives=min(choices, key=len, default=()),
    )


def any_of(filters: Sequence[Filter]) -> Filter:
    """The filter that an event matches if it matches at least one of these. Needs one filter at least."""
    if len(filters) == 1:
        return filters[0]
    fixed = tuple(f.matches for f in filters)

    def matches(event: Event) -> bool:
        for condition in fixed:  # noqa: SIM110
            if condition(event):
                return True
        return False

    return Filter(matches, alternatives=tuple(filters))


def _joined(hints: Sequence[tuple[tuple[str, str], ...]]) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys(pair for pairs in hints for pair in pairs))
