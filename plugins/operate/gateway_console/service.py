"""The console as a service of a gateway. Pages, and what they show, are loaded when somebody looks at one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anyio.abc import TaskGroup
from gateway_api.figures import Figure
from gateway_api.routes import Route

from gateway_core.contract.errors import StartError
from gateway_core.contract.services import GatewayView, RunningService, Stream
from gateway_core.contract.status import GatewayStatus

from .switch import ROOT, check_switch, switched_on

if TYPE_CHECKING:
    from .parts import ConsoleParts


class ConsoleService(RunningService):
    """Pages for browsers. Without a reader there are none."""

    def __init__(self, gateway: GatewayView) -> None:
        self._gateway = gateway
        self._on = switched_on()
        self._tasks: TaskGroup | None = None
        self._parts: ConsoleParts | None = None

    @property
    def _served(self) -> bool:
        return self._on and {"admin", "inspect", "deadletter"} <= self._gateway.services.keys()

    def addresses(self) -> Mapping[str, str]:
        """By "console": where browsers find it; nothing if the admin API has only its socket."""
        base = self._gateway.services["admin"].addresses().get("admin") if self._served else None
        return {"console": f"{base}{ROOT}"} if base else {}

    def load(self) -> None:
        if self._served:
            from . import page, parts, routes  # noqa: F401

            page.prepare()

    def routes(self) -> Sequence[Route]:
        if not self._served:
            return []
        from .routes import console_routes

        return console_routes(self._made().console)

    def figures(self, status: GatewayStatus) -> Sequence[Figure]:
        """Those of the overview that say how the gateway runs."""
        from .filters import count, seconds

        config = status.config
        return [
            Figure("Workers", count(status.workers)),
            Figure("Up", seconds(int(status.uptime_s))),
            Figure("Generation", count(config.generation), "bad" if config.error else ""),
        ]

    def _made(self) -> ConsoleParts:
        """What this worker keeps, from the first time on that somebody looks."""
        if self._parts is None:
            from .parts import ConsoleParts

            self._parts = ConsoleParts(self._gateway)
            if self._tasks is not None:
                self._parts.start(self._tasks)
        return self._parts

    def answer(self, question: Any) -> Any:
        """The failures of a trigger in this worker (`failures_of`), what it has counted (`Lookout.answer`), or what it
        recorded (`Recording.ask`)."""
        return self._made().answer(question)

    def open(self, request: Any) -> Stream | None:
        return self._made().open()

    def close(self, stream: Stream) -> None:
        from .recorder import Asked

        if isinstance(stream, Asked):
            self._made().close(stream)

    async def start(self, tasks: TaskGroup) -> None:
        if faults := check_switch():
            raise StartError("\n".join(map(str, faults)))
        if self._on:
            self._tasks = tasks
            if self._gateway.worker != 0:  # the first one asks at any time, and expects an answer at once
                self._made()
