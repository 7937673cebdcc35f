"""The status of a gateway in many short steps, so that thousands of triggers don't hold up events."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from gateway_serving.slices import Steps, at_once, finished

from gateway_core.contract.status import GatewayStatus
from gateway_core.runtime.gateway import Gateway

from .own_metrics import own_metrics

T = TypeVar("T")


def status_in_steps(gateway: Gateway, wanted: Collection[str] | None = None) -> Steps[GatewayStatus]:
    """`Gateway.status`, or with these triggers only, and then without components' own metrics. What a step adds is of
    its own moment."""
    triggers = []
    for trigger in gateway.trigger_statuses(wanted):
        triggers.append(trigger)
        yield
    measures = wanted is None and gateway.settings.metrics
    measured = (yield from own_metrics(gateway.built)) if measures else {}
    return gateway.status(triggers, measured)


def status_of(gateway: Gateway, wanted: Collection[str]) -> GatewayStatus:
    """The status with these few triggers only."""
    return at_once(status_in_steps(gateway, wanted))


async def in_slices(steps: Steps[T]) -> T:
    """What these steps make. It may take a while, in which events go on."""
    return await finished(steps)


async def status_in_slices(gateway: Gateway) -> GatewayStatus:
    """The status, made as by `in_slices`."""
    return await finished(status_in_steps(gateway))
