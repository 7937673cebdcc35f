"""A gateway whose subscriber permits what it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from gateway_testing import Subscriber

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load_all
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests import web
from tests.in_process import started

pytestmark = pytest.mark.anyio

ORIGIN = "events.example.com"


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


@asynccontextmanager
async def running(folder: Path, url: str) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    file = folder / "tidegate.yaml"
    file.write_text(f"""
brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:0"}}]}}}}
triggers: {{t: {{subscriber: {{http: {{url: "{url}", webhook: {{origin: {ORIGIN}}}}}}}}}}}
""")
    registry = Registry.installed()
    config = load_all([file], registry, {}).config
    gateway = Gateway(config, Settings(data_dir=folder / "data", admin="off"), registry)
    async with started(gateway), web.async_client(verify=False, timeout=60) as client:
        yield gateway, client


@pytest.mark.slow
@pytest.mark.spec("WH-01", "WH-02")
async def test_what_waits_for_its_turn_survives_a_stop(tmp_path: Path) -> None:
    """At one request a minute, the second and third event wait when the gateway stops. They leave after the start."""
    rate = ["1"]
    posted: list[str] = []

    def decide(received: Any) -> Any:
        if received.method == "OPTIONS":
            return 200, {"WebHook-Allowed-Origin": ORIGIN, "WebHook-Allowed-Rate": rate[0]}, b""
        assert received.headers["webhook-request-origin"] == ORIGIN
        posted.append(received.headers["ce-id"])
        return 202

    async def until(count: int) -> None:
        with anyio.fail_after(60):
            while len(posted) < count:  # noqa: ASYNC110 the subscriber has threads of its own
                await anyio.sleep(0.01)

    with Subscriber(decide=decide) as subscriber:
        async with running(tmp_path, subscriber.url) as (gateway, client):
            for number in range(3):
                headers = {"ce-specversion": "1.0", "ce-id": str(number), "ce-source": "/s", "ce-type": "t"}
                response = await client.post(gateway.ingress["default"][0], content=b"{}", headers=headers)
                assert response.status_code == 202
            await until(1)
        assert len(posted) == 1
        rate[0] = "*"
        async with running(tmp_path, subscriber.url):
            await until(3)
    assert sorted(set(posted)) == ["0", "1", "2"]
