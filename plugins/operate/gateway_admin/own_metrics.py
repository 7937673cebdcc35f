"""Metrics that components count themselves (`gateway_core.contract.capabilities.Measured`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from gateway_serving.slices import Steps

from gateway_core.contract.capabilities import Measured, offers
from gateway_core.contract.component import Component, OwnMetric
from gateway_core.contract.record import DETAILS
from gateway_core.pipeline.broker import Trigger
from gateway_core.runtime.build import Built

Place = tuple[str, str, str]
"""Section, name, and place in that entry."""


def declared(components: Iterable[Component]) -> list[OwnMetric]:
    """The metrics that components declare, by name. A source and a sink may declare the same one."""
    found = {metric.name: metric for component in components for metric in component.metrics}
    return [found[name] for name in sorted(found)]


def own_metrics(built: Built) -> Steps[dict[str, Any]]:
    """The numbers of all components of a gateway, by section, name and place (`GatewayStatus.measured`), in steps."""
    found: dict[str, Any] = {}
    for (section, name, place), part in _components(built):
        if offers(part, Measured):
            with suppress(Exception):  # one that raises must not hide the others
                numbers = dict(part.metrics())
                places = found.setdefault(section, {}).setdefault(name, {})
                places[place] = DETAILS.join(places.get(place, {}), numbers)
        yield
    return found


def _components(built: Built) -> Iterator[tuple[Place, object]]:
    for name, broker in list(built.brokers.items()):
        for bound_source in broker.bound_sources:
            yield ("brokers", name, "ingress"), bound_source.source
        yield ("brokers", name, "channel"), broker.channel
        yield ("brokers", name, "dead_letter"), broker.dead_letter
    for name, trigger in list(built.triggers.items()):
        sinks = trigger.sinks if isinstance(trigger, Trigger) else [trigger.sink]
        for place, sink in zip(("subscriber", "dead_letter"), sinks, strict=False):
            yield ("triggers", name, place), sink
    for name, bridged in list(built.bridges.items()):
        yield ("bridges", name, "source"), bridged.bound_source.source
        for place, sink in zip(("sink", "dead_letter"), bridged.sinks, strict=False):
            yield ("bridges", name, place), sink
