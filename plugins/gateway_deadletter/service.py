"""Dead letters as a service of a gateway: their routes in the admin API."""

from __future__ import annotations

from collections.abc import Sequence

from gateway_admin.routes import Route

from gateway_core.contract.services import RunningService
from gateway_core.runtime.gateway import Gateway

from .routes import dead_letter_routes


class DeadLetterService(RunningService):
    """Nothing runs: each request reads the files."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> Sequence[Route]:
        return dead_letter_routes(self._gateway)
