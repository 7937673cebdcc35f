"""What the routes of the admin API need from the service that offers them."""

from __future__ import annotations

from typing import Protocol

from gateway_core.runtime.gateway import Gateway

from .conditions import Conditions
from .control import Control
from .generations import Generations


class AdminContext(Protocol):
    """One gateway, its resources' generations and conditions, and what changes it."""

    gateway: Gateway
    generations: Generations
    conditions: Conditions

    @property
    def control(self) -> Control | None:
        """None if the gateway takes no changes."""
