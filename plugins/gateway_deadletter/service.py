"""Dead letters as a service of a gateway: their routes in the admin API, and replays."""

from __future__ import annotations

from collections.abc import Sequence

from anyio.abc import TaskGroup
from gateway_admin.routes import Route

from gateway_core.contract.services import RunningService
from gateway_core.runtime.gateway import Gateway

from .overview import Overview
from .replay_routes import replay_routes
from .replays import Replays
from .routes import dead_letter_routes


class DeadLetterService(RunningService):
    """Each request reads the files. Replays run in the first worker, which answers all requests."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.replays = Replays(gateway)
        self.overview = Overview(gateway)

    def routes(self) -> Sequence[Route]:
        return [*dead_letter_routes(self._gateway), *replay_routes(self.replays)]

    async def start(self, tasks: TaskGroup) -> None:
        if self._gateway.worker == 0:
            self.replays.begin(tasks)

    async def stop(self) -> None:
        await self.replays.stop()
