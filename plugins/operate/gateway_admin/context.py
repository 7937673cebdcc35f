"""What the routes of the admin API need from the service that offers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway_api.routes import Problem

from gateway_core.contract.services import GatewayView

from .conditions import Conditions
from .generations import Generations

if TYPE_CHECKING:
    from .control import Control


class AdminContext(Protocol):
    """One gateway, its resources' generations and conditions, and what changes it."""

    gateway: GatewayView
    generations: Generations
    conditions: Conditions

    @property
    def control(self) -> Control | None:
        """None if the gateway takes no changes."""


def control_of(service: AdminContext) -> Control:
    """What changes the gateway. Raises `Problem` (409) if it takes no changes."""
    if service.control is None:
        why = "it has no config files, `reload` is off, or the plugin `reload` is not installed"
        raise Problem(409, f"this gateway can't be changed: {why}")
    return service.control
