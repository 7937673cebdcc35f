"""What the pages need of the gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import anyio
from anyio import to_thread
from gateway_admin.service import AdminService
from gateway_api.routes import Request
from gateway_deadletter.service import DeadLetterService
from gateway_inspect.service import InspectService

from gateway_core.contract.services import GatewayView

from .catalogue.lookout import Lookout
from .config import HideConfig, hidden
from .recorder import Recording
from .sampler import FEW, Sampler
from .stock import Stock

T = TypeVar("T")


@dataclass
class Console:
    """One gateway, its recent past, and the services whose answers the pages show."""

    gateway: GatewayView
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
    def stock(self) -> Stock:
        """How many dead letters there are."""
        found = self.gateway.services["deadletter"]
        assert isinstance(found, DeadLetterService)
        return Stock(found.overview)

    @cached_property
    def inspect(self) -> InspectService:
        """Explains, finds and taps events."""
        found = self.gateway.services["inspect"]
        assert isinstance(found, InspectService)
        return found

    def apart(self, made: Callable[[Request], T]) -> Callable[[Request], Awaitable[T]]:
        """The same with a new sample, and in a thread if there are many triggers: events must not wait for it."""
        limiter = anyio.CapacityLimiter(1)

        async def answer(request: Request) -> T:
            await self.sampler.ready()
            await self.stock.refresh()
            if len(self.gateway.topology.triggers) <= FEW:
                return made(request)
            return await to_thread.run_sync(made, request, limiter=limiter)

        return answer

    @property
    def hides(self) -> HideConfig:
        """What the config in force hides."""
        return hidden(self.gateway.config)
