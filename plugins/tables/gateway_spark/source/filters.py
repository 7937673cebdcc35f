"""A trigger's filter, evaluated in Spark's Python workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, FilterRef
from gateway_core.contract.configs import Registry, installed
from gateway_core.contract.event import Event, text_of
from gateway_core.contract.filter_guard import FilterGuard
from gateway_core.contract.filters import all_of
from gateway_core.contract.normal_form import normal_attributes

from .schema import JSON_DATA, Row

Matches = Callable[[Row, dict[str, Any]], bool]


@lru_cache(32)
def compiled(filters: str, attributes: str) -> Matches | None:
    """The condition for a row and its attributes, or None if all match. `filters` is a JSON list of filters as in a
    config, `attributes` a JSON object of attributes and values, used only if there are no `filters` (Knative's rule);
    both may be empty. Raises `StartError` or pydantic's `ValidationError`."""
    if filters and (refs := json.loads(filters)):
        return _filters(refs)
    if attributes and (wanted := json.loads(attributes)):
        return _attributes(wanted)
    return None


def _filters(raw: list[Any]) -> Matches:
    registry = _registry()
    context = BuildContext(owner="spark.filters", data_dir=Path(), clock=SystemClock(), registry=registry)
    built = [context.build(FilterRef.parse(value), str(n)) for n, value in enumerate(raw)]
    # Spark workers can't write dead letters: a row whose filter raises is kept, and the worker's log says so
    wanted = FilterGuard(all_of(built), "a trigger's filter", "the row is kept").filter.matches

    def matches(row: Row, attributes: dict[str, Any]) -> bool:
        event = Event(attributes, row[5], bool(row[2] & JSON_DATA), row[3], row[1], row[0])
        return wanted(event)

    return matches


def _attributes(wanted: Mapping[str, str]) -> Matches:
    pairs = list(wanted.items())

    def matches(row: Row, attributes: dict[str, Any]) -> bool:
        attributes = normal_attributes(attributes)
        for name, value in pairs:
            found = attributes.get(name)
            if found is None or (value and text_of(found) != value):
                return False
        return True

    return matches


@lru_cache(1)
def _registry() -> Registry:
    # reading all entry points takes a while, and a worker process serves many tasks
    return installed()
