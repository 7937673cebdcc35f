"""Dead letters as a service of a gateway: their routes in the admin API, and replays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup
from gateway_api.routes import Route

from gateway_core.contract.services import GatewayView, RunningService
from gateway_core.contract.status import ReplaysStatus

if TYPE_CHECKING:
    from .overview import Overview
    from .replays import Replays


class DeadLetterService(RunningService):
    """Each request reads the files. Replays run in the first worker, which answers all requests."""

    def __init__(self, gateway: GatewayView) -> None:
        self._gateway = gateway
        self._tasks: TaskGroup | None = None
        self._replays: Replays | None = None

    @property
    def replays(self) -> Replays:
        """The replays of this gateway."""
        if self._replays is None:
            from .replays import Replays

            self._replays = Replays(self._gateway)
            if self._tasks is not None:
                self._replays.begin(self._tasks)
        return self._replays

    @cached_property
    def overview(self) -> Overview:
        """What the files hold."""
        from .overview import Overview

        return Overview(self._gateway)

    def load(self) -> None:
        from . import overview, replay_routes, routes  # noqa: F401

    def routes(self) -> Sequence[Route]:
        from .replay_routes import replay_routes
        from .routes import dead_letter_routes

        return [*dead_letter_routes(self._gateway), *replay_routes(self.replays)]

    async def start(self, tasks: TaskGroup) -> None:
        if self._gateway.worker == 0:
            self._tasks = tasks

    def replay_status(self) -> ReplaysStatus | None:
        if self._gateway.worker != 0:
            return None
        active = failed = 0
        if (replays := self._replays) is not None:
            active = sum(not replay.ended for replay in replays.known.values())
            failed = replays.failed
        return ReplaysStatus("dead_letters", active, failed)

    async def stop(self) -> None:
        self._tasks = None
        if self._replays is not None:
            await self._replays.stop()
