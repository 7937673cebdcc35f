"""Figures that services of any plugin add to the console's overview."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from gateway_api.figures import Figure

from gateway_core.config.registry import Registry
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.services import GatewayView, RunningService, Service
from gateway_core.contract.settings import Settings
from gateway_core.contract.status import GatewayStatus
from gateway_core.runtime.gateway import Gateway
from tests import web
from tests.in_process import started

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.spec("SVC-03")]


class Adds(RunningService):
    """Adds one figure."""

    def __init__(self, gateway: GatewayView) -> None: ...

    def figures(self, status: GatewayStatus) -> list[Figure]:
        return [Figure("<b>Pace</b>", f"{status.workers} steady", "good", "//elsewhere.example")]


class Raises(Adds):
    """Can't tell its figures."""

    def figures(self, status: GatewayStatus) -> list[Figure]:
        raise ValueError("no figures today")


def gateway_services() -> list[Service]:
    return [Service("adds", "Adds a figure.", Adds), Service("raises", "Adds none.", Raises)]


async def test_the_overview_shows_the_figures_of_a_service_and_names_one_that_raises(tmp_path: Path) -> None:
    registry = Registry.installed()
    registry.add("outsider", SimpleNamespace(gateway_services=hookimpl(gateway_services)))
    gateway = Gateway(GatewayConfig(), Settings(data_dir=tmp_path, admin="127.0.0.1:0", drain_timeout_s=1), registry)
    async with started(gateway):
        headers = {"authorization": f"Bearer {(tmp_path / 'admin.token').read_text().strip()}"}
        url = gateway.addresses["admin"]
        async with web.async_client(base_url=url, headers=headers, trust_env=False, verify=False) as client:
            page = (await client.get("/console")).text
    assert "&lt;b&gt;Pace&lt;/b&gt;" in page  # text is never markup
    assert ">1 steady</span>" in page
    assert "elsewhere.example" not in page  # a link leads to this server only
    assert ">Generation</span>" in page
    assert "figures of service raises" in page
    assert "ValueError: no figures today" in page
