"""Metrics that components count themselves (`gateway_core.contract.capabilities.Measured`)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, TypeVar

from ..contract.capabilities import Measured
from ..contract.component_errors import text_of_error
from ..contract.config_node import dotted
from ..contract.record import DETAILS
from ..contract.status import Unreported
from ..pipeline.broker import Trigger
from .build import Built

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work in short steps, which returns what it made."""


def finished(steps: Steps[T]) -> T:
    """What these steps make, at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: T = end.value
            return made


def own_metrics(built: Built) -> Steps[tuple[dict[str, Any], list[Unreported]]]:
    """The numbers of all components of a gateway, by section, name and place (`GatewayStatus.measured`), in steps; and
    the components that raised instead."""
    found: dict[str, Any] = {}
    failed: list[Unreported] = []
    for (section, name, place), part in _components(built):
        if isinstance(part, Measured):
            try:
                numbers = dict(part.metrics())
            except Exception as e:  # the others have theirs
                failed.append(Unreported(f"metrics of {dotted((section, name, place))}", text_of_error(e)))
            else:
                places = found.setdefault(section, {}).setdefault(name, {})
                places[place] = DETAILS.join(places.get(place, {}), numbers)
        yield
    return found, failed


def _components(built: Built) -> Iterator[tuple[tuple[str, str, str], object]]:
    """All components with their section, name, and place in that entry."""
    for name, broker in built.brokers.items():
        for bound_source in broker.bound_sources:
            yield ("brokers", name, "ingress"), bound_source.source
        yield ("brokers", name, "channel"), broker.channel
        yield ("brokers", name, "dead_letter"), broker.dead_letter
    for name, trigger in built.triggers.items():
        sinks = trigger.sinks if isinstance(trigger, Trigger) else [trigger.sink]
        for place, sink in zip(("subscriber", "dead_letter"), sinks, strict=False):
            yield ("triggers", name, place), sink
    for name, bridged in built.bridges.items():
        yield ("bridges", name, "source"), bridged.bound_source.source
        for place, sink in zip(("sink", "dead_letter"), bridged.sinks, strict=False):
            yield ("bridges", name, place), sink
