"""Metrics that components count themselves (`gateway_core.contract.capabilities.Measured`)."""

from __future__ import annotations

from collections.abc import Iterable

from gateway_core.contract.component import Component, OwnMetric


def declared(components: Iterable[Component]) -> list[OwnMetric]:
    """The metrics that components declare, by name. A source and a sink may declare the same one."""
    found = {metric.name: metric for component in components for metric in component.metrics}
    return [found[name] for name in sorted(found)]
