"""The newest failures of a trigger's attempts, from all workers."""

from __future__ import annotations

from typing import Any

from gateway_core.contract.moments import stamped
from gateway_core.contract.services import GatewayView

SERVICE = "console"
MOST = 50


def own_failures(gateway: GatewayView, name: str) -> list[dict[str, Any]]:
    """Those of this worker, the newest first, as JSON values."""
    trigger = gateway.topology.triggers.get(name)
    if trigger is None or trigger.delivery is None:
        return []
    newest = list(trigger.delivery.failures.newest)[-MOST:]
    return [
        {
            "at": stamped(failure.at_ns),
            "id": failure.id,
            "source": failure.source,
            "attempt": failure.attempt,
            "code": failure.code,
            "reason": failure.reason,
        }
        for failure in reversed(newest)
    ]


async def failures_of(gateway: GatewayView, name: str) -> list[dict[str, Any]]:
    """Those of all workers, the newest first."""
    others = await gateway.peers.ask(SERVICE, {"failures": name})
    found = [*own_failures(gateway, name), *(each for answer in others for each in answer)]
    return sorted(found, key=lambda failure: str(failure["at"]), reverse=True)
