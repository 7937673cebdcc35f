"""The console as a service of a gateway: its routes in the admin API, and the samples that its pages show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyio.abc import TaskGroup
from gateway_admin.routes import Answer, Request, Route, Text

from gateway_core.contract.errors import StartError
from gateway_core.contract.services import RunningService, Stream
from gateway_core.runtime.gateway import Gateway

from .assets import asset_routes
from .catalogue.lookout import QUESTION, Lookout
from .context import Console
from .failures import own_failures
from .live import present
from .login import login_routes
from .page import HTML, ROOT, see_other
from .pages import catalogue, config, dead_letters, events, overview, playground, tables, tap, triggers
from .recorder import Asked, Recorder, Recording
from .sampler import Sampler
from .switch import check_switch, switched_on


class ConsoleService(RunningService):
    """Pages for browsers. Without a reader it only waits."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._sampler = Sampler(gateway.status)
        self._lookout = Lookout(gateway)
        self._on = switched_on()
        self._recorder = Recorder(gateway)
        self._recording = Recording(gateway, self._sampler, self._recorder)
        self._sampler.on_watch = self._recording.look

    @property
    def _served(self) -> bool:
        return self._on and {"admin", "inspect", "deadletter"} <= self._gateway.services.keys()

    def addresses(self) -> Mapping[str, str]:
        """By "console": where browsers find it; nothing if the admin API has only its socket."""
        base = self._gateway.services["admin"].addresses().get("admin") if self._served else None
        return {"console": f"{base}{ROOT}"} if base else {}

    def routes(self) -> Sequence[Route]:
        if not self._served:
            return []
        console = Console(self._gateway, self._sampler, self._lookout, self._recording)
        modules = (overview, events, tap, dead_letters, triggers, playground, tables, catalogue, config)
        pages = [route for module in modules for route in module.routes(console)]
        return [_start(), *asset_routes(), *login_routes(console.admin), present(), *pages]

    def answer(self, question: Any) -> Any:
        """The failures of a trigger in this worker (`failures_of`), what it has counted (`Lookout.answer`), or what it
        recorded (`Recording.ask`)."""
        if QUESTION in question:
            return self._lookout.answer(question[QUESTION])
        if "recorded" in question:
            return self._recorder.answer(question["recorded"])
        return own_failures(self._gateway, question["failures"])

    def open(self, request: Any) -> Stream | None:
        self._recorder.begin()
        return Asked()

    def close(self, stream: Stream) -> None:
        if isinstance(stream, Asked):
            stream.close()
            self._recorder.end()

    async def start(self, tasks: TaskGroup) -> None:
        if faults := check_switch():
            raise StartError("\n".join(map(str, faults)))
        if self._on and self._gateway.worker == 0:
            tasks.start_soon(self._sampler.run)
            tasks.start_soon(self._recording.run)
        if self._on:
            tasks.start_soon(self._lookout.run)


def _start() -> Route:
    def answer(request: Request) -> Answer:
        return see_other(ROOT)

    return Route("GET", "/", answer, "The console", {303: Text(HTML)}, open=True, described=False)
