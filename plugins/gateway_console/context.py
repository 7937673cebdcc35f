"""What the pages need of the gateway."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gateway_admin.service import AdminService
from gateway_inspect.service import InspectService

from gateway_core.runtime.gateway import Gateway

from .catalogue.lookout import Lookout
from .config import HideConfig, hidden
from .recorder import Recording
from .sampler import Sampler


@dataclass
class Console:
    """One gateway, its recent past, and the services whose answers the pages show."""

    gateway: Gateway
    sampler: Sampler
    lookout: Lookout
    recording: Recording

    @cached_property
    def admin(self) -> AdminService:
        """Reads and changes resources; knows who calls."""
        found = self.gateway.services["admin"]
        assert isinstance(found, AdminService)
        return found

    @cached_property
    def inspect(self) -> InspectService:
        """Explains, finds and taps events."""
        found = self.gateway.services["inspect"]
        assert isinstance(found, InspectService)
        return found

    @property
    def hides(self) -> HideConfig:
        """What the config in force hides."""
        return hidden(self.gateway.config)
