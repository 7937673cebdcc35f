"""Services: what a third party's plugin runs beside the components of a gateway."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from gateway_admin import plugin as admin_plugin
from gateway_api.routes import Answer, Request, Route
from gateway_workers.rpc import PeerClient, PeerServer

from gateway_core.config.registry import Registry
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.errors import StartError
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.services import GatewayView, RunningService, Service
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from gateway_core.runtime.role import Role
from tests import web

pytestmark = pytest.mark.anyio


class Page(RunningService):
    """Notes what it is told, and serves a page."""

    def __init__(self, gateway: GatewayView) -> None:
        self.gateway = gateway
        self.told: list[str] = []
        self.raises: Exception | None = None

    def _note(self, what: str) -> None:
        self.told.append(what)
        if self.raises is not None:
            raise self.raises

    def routes(self) -> list[Route]:
        def page(request: Request) -> Answer:
            return Answer({"hello": request.params["name"], "started": self.gateway.started})

        return [Route("GET", "/hello/{name}", page, "A greeting", {200: dict})]

    def addresses(self) -> dict[str, str]:
        return {"page": "here"}

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
