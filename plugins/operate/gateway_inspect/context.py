"""What the routes of inspection need from the service that offers them."""

from __future__ import annotations

from typing import Protocol

from gateway_core.contract.services import GatewayView

from .tap.taps import Taps


class InspectContext(Protocol):
    """`name` is the name of the service: the peers that answer its questions find theirs by it."""

    name: str
    gateway: GatewayView

    @property
    def taps(self) -> Taps:
        """What is seen live."""
