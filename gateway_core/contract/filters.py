"""Filters to build on: on attributes, joined by AND, with hints for indexes and with explanations.

An attribute's value is compared as the text that headers carry (`text_of`): an event in binary mode and the same event
in structured mode match the same filters. Hints (`Filter.exact`, `Filter.prefix`) refer to the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from .event import Event, text_of
from .interfaces import Clause, Filter
from .normal_form import normal_attributes

Matches = Callable[[Event], bool]
_Condition = Callable[[str, str], Matches]
_Hints = tuple[tuple[str, str], ...]


def _always(event: Event) -> bool:
    return True


_MATCH_ALL = Filter(_always, explain=lambda event: Clause("every event", True))


def match_all() -> Filter:
    """The filter that matches every event."""
    return _MATCH_ALL


def has_value(name: str, value: str) -> Matches:
    """Whether the attribute is there and its text equals `value`."""

    def matches(event: Event) -> bool:
        found = event.attributes.get(name)
        if found is None:
            found = normal_attributes(event.attributes).get(name)
        return found == value if type(found) is str else found is not None and text_of(found) == value

    return matches


def every(conditions: Sequence[Matches]) -> Matches:
    """Whether all conditions hold; true if there are none."""
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
    """The filter of a trigger's `filter:` key: every attribute equals its value; an empty value only requires that the
    attribute is present; no attributes match every event (Knative Broker specification, "Trigger filtering")."""
    if not attributes:
        return _MATCH_ALL
    exact = tuple((n, v) for n, v in attributes.items() if v)
    return on_attributes("exact", _equal, attributes, exact)


def _equal(name: str, text: str) -> Matches:
    return has_value(name, text) if text else lambda event: name in normal_attributes(event.attributes)


def indexable(filter: Filter) -> bool:
    """Whether a filter has hints, so that it need not run on every event."""
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
        explain=lambda event: joined_clause("all", all, [clause_of(f, event) for f in filters]),
    )


# -- why a filter matches, or does not ------------------------------------------------------------------------------


def clause_of(filter: Filter, event: Event) -> Clause:
    """The filter's own explanation; without one, only whether it matched."""
    if filter.explain is not None:
        return filter.explain(event)
    return Clause("a filter that does not say why", filter.matches(event))


def joined_clause(word: str, join: Callable[[Iterable[bool]], bool], parts: Sequence[Clause]) -> Clause:
    """The clause of filters that are joined by `word` ("all", "any"): whether `join` holds for their results."""
    return Clause(word, join(part.matched for part in parts), parts=tuple(parts))


def on_attributes(word: str, condition: _Condition, attributes: Mapping[str, str], exact: _Hints = ()) -> Filter:
    """The filter that an event matches if `condition` holds for every attribute and its text; `word` names it."""
    matches = every([condition(name, text) for name, text in attributes.items()])
    return Filter(matches, exact, explain=partial(_explain, word, condition, attributes))


def _explain(word: str, condition: _Condition, attributes: Mapping[str, str], event: Event) -> Clause:
    parts = [
        Clause(f"{word} {n}: {text!r}" if text else f"{n} is there", condition(n, text)(event), found_in(event, n))
        for n, text in attributes.items()
    ]
    return parts[0] if len(parts) == 1 else joined_clause("all", all, parts)


def found_in(event: Event, name: str) -> str:
    """The value of an attribute of an event, in words."""
    value = normal_attributes(event.attributes).get(name)
    return f"{name} is absent" if value is None else f"{name} is {text_of(value)!r}"


def _joined(hints: Sequence[_Hints]) -> _Hints:
    return tuple(dict.fromkeys(pair for pairs in hints for pair in pairs))
