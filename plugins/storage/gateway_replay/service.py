"""Replays and rewinds as a service of a gateway: their routes in the admin API, and the replays that run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anyio.abc import TaskGroup
from gateway_api.routes import Route

from gateway_core.contract.event import Event
from gateway_core.contract.services import GatewayView, RunningService
from gateway_core.contract.status import ReplaysStatus

if TYPE_CHECKING:
    from .jobs import Jobs
    from .rewinds import RewindPart


class ReplayService(RunningService):
    """Replays run in the first worker, which answers all requests. Nothing is loaded before somebody asks for one, or
    the data directory has one."""

    def __init__(self, gateway: GatewayView) -> None:
        self._gateway = gateway
        self._tasks: TaskGroup | None = None
        self._jobs: Jobs | None = None
        self._part: RewindPart | None = None

    async def jobs(self) -> Jobs:
        """The replays of this gateway."""
        if self._jobs is None:
            from .jobs import Jobs

            self._jobs = jobs = Jobs(self._gateway)
            if self._tasks is not None:
                await jobs.begin(self._tasks)
        return self._jobs

    def load(self) -> None:
        from . import jobs, routes  # noqa: F401

    def routes(self) -> Sequence[Route]:
        from .routes import replay_routes

        return replay_routes(self._gateway, self.jobs)

    async def start(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        if self._gateway.worker == 0 and (self._gateway.data_dir / "replay").is_dir():
            await self.jobs()

    def replay_status(self) -> ReplaysStatus | None:
        if self._gateway.worker != 0:
            return None
        jobs = self._jobs
        return ReplaysStatus("events", *((0, 0) if jobs is None else (sum(1 for _ in jobs.active), jobs.failed)))

    def replays_of(self, trigger: str, event: Event) -> Sequence[str]:
        """See `gateway_core.contract.replayable.TellsReplays`."""
        return [] if self._jobs is None else [text for text in self._jobs.told_of(trigger, event) if text]

    def answer(self, question: Any) -> Any:
        if self._part is None:
            if self._tasks is None:
                return None
            from .rewinds import RewindPart

            self._part = RewindPart(self._gateway, self._tasks)
        return self._part.answer(question)

    async def stop(self) -> None:
        self._tasks = None
        if self._jobs is not None:
            await self._jobs.stop()
