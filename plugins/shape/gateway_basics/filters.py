"""The filter dialects of the CloudEvents Subscriptions API 1.0 (section 3.2.4), as compiled filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gateway_core.contract.component import BuildContext
from gateway_core.contract.event import Event, text_of
from gateway_core.contract.filters import Matches, all_of, attributes_filter, clause_of, joined_clause, on_attributes
from gateway_core.contract.interfaces import Clause, Filter

if TYPE_CHECKING:
    from .config import AttributesConfig, FilterConfig, FiltersConfig


def build_exact(config: AttributesConfig, context: BuildContext) -> Filter:
    """Every attribute exists and equals its text."""
    return attributes_filter(config.root)


def build_prefix(config: AttributesConfig, context: BuildContext) -> Filter:
    """Every attribute exists and starts with its text."""
    pairs = tuple(config.root.items())
    return replace(on_attributes("prefix", _starts, config.root), prefix=pairs)


def build_suffix(config: AttributesConfig, context: BuildContext) -> Filter:
    """Every attribute exists and ends with its text."""
    return on_attributes("suffix", _ends, config.root)


def build_all(config: FiltersConfig, context: BuildContext) -> Filter:
    """All of the filters match."""
    return all_of(_operands(config, context))


def build_any(config: FiltersConfig, context: BuildContext) -> Filter:
    """At least one of the filters matches."""
    return any_of(_operands(config, context))


def build_not(config: FilterConfig, context: BuildContext) -> Filter:
    """The filter does not match."""
    return not_of(context.build(config.root))


def any_of(filters: Sequence[Filter]) -> Filter:
    """The filter that an event matches if it matches at least one of these. Needs one filter at least."""
    if len(filters) == 1:
        return filters[0]
    fixed = tuple(f.matches for f in filters)

    def matches(event: Event) -> bool:
        for condition in fixed:  # noqa: SIM110 - `any` with a generator costs twice as much
            if condition(event):
                return True
        return False

    def explain(event: Event) -> Clause:
        return joined_clause("any", any, [clause_of(f, event) for f in filters])

    return Filter(matches, alternatives=tuple(filters), explain=explain)


def not_of(filter: Filter) -> Filter:
    """The filter that an event matches if it does not match this one."""
    matches = filter.matches

    def explain(event: Event) -> Clause:
        inner = clause_of(filter, event)
        return Clause("not", not inner.matched, parts=(inner,))

    return Filter(lambda event: not matches(event), explain=explain)


def _operands(config: FiltersConfig, context: BuildContext) -> list[Filter]:
    return [context.build(ref, str(i)) for i, ref in enumerate(config.root)]


def _starts(name: str, text: str) -> Matches:
    def matches(event: Event) -> bool:
        found = event.attributes.get(name)
        return found is not None and text_of(found).startswith(text)

    return matches


def _ends(name: str, text: str) -> Matches:
    def matches(event: Event) -> bool:
        found = event.attributes.get(name)
        return found is not None and text_of(found).endswith(text)

    return matches
