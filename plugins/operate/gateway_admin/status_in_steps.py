"""The status of a gateway in many short steps, so that thousands of triggers don't hold up events."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from gateway_serving.slices import Steps, at_once, finished

from gateway_core.contract.services import GatewayView
from gateway_core.contract.status import GatewayStatus

T = TypeVar("T")


def status_of(gateway: GatewayView, wanted: Collection[str]) -> GatewayStatus:
    """The status with these few triggers only."""
    return at_once(gateway.status_in_steps(wanted))


async def in_slices(steps: Steps[T]) -> T:
    """What these steps make. It may take a while, while events keep flowing."""
    return await finished(steps)


async def status_in_slices(gateway: GatewayView) -> GatewayStatus:
    """The status, made as by `in_slices`."""
    return await finished(gateway.status_in_steps())
