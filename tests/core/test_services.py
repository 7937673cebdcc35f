"""Services: what a third party's plugin runs beside the components of a gateway."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from gateway_admin import plugin as admin_plugin
from gateway_api.routes import Answer, Request, Route, ServiceRoutes
from gateway_log import plugin as log_plugin
from gateway_testing import ScriptedSink
from gateway_workers.rpc import PeerClient, PeerServer

from gateway_core.config.registry import Registry
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.errors import StartError
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.services import GatewayView, RunningService, Service
from gateway_core.contract.settings import Settings
from gateway_core.contract.status import ProcessStatus, Unreported
from gateway_core.runtime.gateway import Gateway
from gateway_core.runtime.role import Role
from tests import web
from tests.delivery.gateway_rig import Parts
from tests.in_process import started

pytestmark = pytest.mark.anyio


class Page(RunningService):
    """Notes what it is told, and serves a page."""

    def __init__(self, gateway: GatewayView) -> None:
        self.gateway = gateway
        self.told: list[str] = []
        self.raises: Exception | None = None

    def _note(self, what: str) -> None:
        if what not in ("addresses", "process"):
            self.told.append(what)
        if self.raises is not None:
            raise self.raises

    def routes(self) -> list[Route]:
        def page(request: Request) -> Answer:
            return Answer({"hello": request.params["name"], "started": self.gateway.started})

        return [Route("GET", "/hello/{name}", page, "A greeting", {200: dict})]

    def addresses(self) -> dict[str, str]:
        self._note("addresses")
        return {"page": "here"}

    def process(self) -> ProcessStatus | None:
        self._note("process")
        return None

    async def start(self, tasks: Any) -> None:
        self._note(f"start {self.gateway.started}")

    async def stop(self) -> None:
        self._note("stop")

    def reached(self, wanted: Any) -> None:
        self._note("reached")

    def changed(self) -> None:
        self._note("changed")

    def answer(self, question: Any) -> Any:
        return {"worker": self.gateway.worker, "asked": question}


def plugin(*services: Service) -> SimpleNamespace:
    def gateway_services() -> list[Service]:
        return list(services)

    return SimpleNamespace(gateway_services=hookimpl(gateway_services))


def made(folder: Path, *services: Service, worker: int = 0) -> Gateway:
    registry = Registry()
    registry.add("admin", admin_plugin)
    registry.add("page", plugin(*services))
    settings = Settings(data_dir=folder, admin="127.0.0.1:0", drain_timeout_s=1)
    role = Role()
    role.worker = worker
    return Gateway(GatewayConfig(), settings, registry, role=role)


@pytest.mark.slow
async def test_a_service_adds_a_page_and_lives_with_the_gateway(tmp_path: Path) -> None:
    gateway = made(tmp_path, Service("page", "A page.", Page))
    page = gateway.services["page"]
    assert isinstance(page, Page)
    stop, started = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run, stop, started)
        await started.wait()
        token = (tmp_path / "admin.token").read_text().strip()
        url, headers = gateway.addresses["admin"], {"authorization": f"Bearer {token}"}
        async with web.async_client(base_url=url, headers=headers, trust_env=False, verify=False) as client:
            assert (await client.get("/hello/you")).json() == {"hello": "you", "started": True}
            assert "/hello/{name}" in (await client.get("/openapi.json")).json()["paths"]
        assert gateway.addresses["page"] == "here"
        gateway.pause([])
        stop.set()
    assert page.told == ["start False", "reached", "changed", "stop"]


async def test_a_service_that_raises_stops_nothing_but_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = made(tmp_path, Service("page", "A page.", Page))
    page = gateway.services["page"]
    assert isinstance(page, Page)
    stop, started = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run, stop, started)
        await started.wait()
        page.raises = ValueError("oh")
        gateway.pause([])
        await gateway.replace_config(GatewayConfig())
        stop.set()
    assert page.told == ["start False", "reached", "changed", "reached", "stop"]
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert "service page failed; it keeps running" in errors

    gateway = made(tmp_path, Service("page", "A page.", Page))
    gateway.services["page"].raises = ValueError("oh")  # type: ignore[attr-defined]
    with pytest.raises(StartError, match="service page: ValueError: oh"):
        await gateway.run(anyio.Event())


async def test_the_same_service_answers_in_the_other_workers(tmp_path: Path) -> None:
    other = made(tmp_path, Service("page", "A page.", Page), worker=1)
    client = PeerClient()
    server = PeerServer(other.services, client.hear)
    async with anyio.create_task_group() as tasks:
        client.joined(1, lambda line: server.hear(line, tasks))
        assert await client.ask("page", ["who"]) == [{"worker": 1, "asked": ["who"]}]


def test_two_services_of_one_name_are_an_error() -> None:
    registry = Registry()
    registry.add("one", plugin(Service("page", "A page.", Page)))
    with pytest.raises(StartError, match="service 'page' comes from two plugins: 'one' and 'two'"):
        registry.add("two", plugin(Service("page", "A page.", Page)))


@pytest.mark.slow
@pytest.mark.spec("SVC-01")
async def test_a_service_that_can_not_report_costs_only_its_own_part_of_the_status(tmp_path: Path) -> None:
    gateway = made(tmp_path, Service("page", "A page.", Page))
    page = gateway.services["page"]
    assert isinstance(page, Page)
    async with started(gateway):
        assert gateway.status().unreported == []
        page.raises = ValueError("oh")
        status = gateway.status()
        assert status.unreported == [Unreported("service page", "ValueError: oh")]
        assert status.ready
        assert gateway.addresses.keys() == {"admin", "socket"}
        page.raises = None


class Twin(Page):
    """Another service with the same path; the parameter has another name."""

    def routes(self) -> list[Route]:
        (route,) = super().routes()
        return [replace(route, path="/hello/{who}")]


class Hidden(Page):
    """Serves a path of the admin API's own."""

    def routes(self) -> list[Route]:
        (route,) = super().routes()
        return [replace(route, path="/status")]


class Late(Twin):
    """Its routes are loaded when somebody asks."""

    def load(self) -> None: ...


class Applies(Page):
    """Serves a path of the admin service, whose routes are loaded late."""

    def routes(self) -> list[Route]:
        (route,) = super().routes()
        return [replace(route, path="/api/v1/triggers")]


@pytest.mark.slow
@pytest.mark.spec("SVC-02")
@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (Twin, r"service page and service twin both offer the route GET /hello/\{who\}"),
        (Late, r"service page and service twin both offer the route GET /hello/\{who\}"),
        (Hidden, "the admin API itself and service twin both offer the route GET /status"),
        (Applies, "service admin and service twin both offer the route GET /api/v1/triggers"),
    ],
)
async def test_a_route_that_another_one_hides_is_a_start_fault(tmp_path: Path, kind: type[Page], fault: str) -> None:
    gateway = made(tmp_path, Service("page", "A page.", Page), Service("twin", "Another page.", kind))
    with pytest.raises(StartError, match=fault):
        await gateway.run(anyio.Event())


@pytest.mark.slow
async def test_no_two_shipped_services_offer_the_same_route(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, admin="socket", drain_timeout_s=1)
    gateway = Gateway(GatewayConfig(), settings, Registry.installed())
    offered = await ServiceRoutes(gateway).all()
    pairs = [(a, b) for n, b in enumerate(offered) for a in offered[:n] if a.method == b.method]
    hidden = [b.path for a, b in pairs if a.match(b.path) is not None]
    assert len(offered) > 40
    assert hidden == []


class Speechless(ScriptedSink):
    """A sink that raises when it is asked how it does, or what it has counted."""

    @property
    def fault(self) -> str | None:
        raise ValueError("no idea")

    def metrics(self) -> dict[str, float]:
        raise ValueError("no numbers")


@pytest.mark.slow
@pytest.mark.spec("SVC-01")
async def test_a_component_that_can_not_report_costs_only_its_own_part_of_the_status(tmp_path: Path) -> None:
    registry = Registry()
    registry.add("parts", Parts(far=Speechless()))
    registry.add("log", log_plugin)
    of_broker = {"b": {"ingress": ["tap"], "dead_letter": "letters"}}
    triggers = {t: {"broker": "b", "subscriber": of} for t, of in (("mute", "far"), ("well", "letters"))}
    config = GatewayConfig.model_validate({"brokers": of_broker, "triggers": triggers})
    gateway = Gateway(config, Settings(data_dir=tmp_path, admin="off", drain_timeout_s=1), registry)
    async with started(gateway):
        status = gateway.status()
    mute, well = sorted(status.triggers, key=lambda trigger: trigger.ready)
    assert (mute.name, mute.ready, well.name, well.ready) == ("mute", False, "well", True)
    assert mute.reason == "the subscriber fails: it can't tell whether it works: ValueError: no idea"
    assert status.unreported == [Unreported("metrics of triggers.mute.subscriber", "ValueError: no numbers")]
