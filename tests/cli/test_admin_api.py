"""The admin API over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest
from gateway_admin.callers import Caller
from gateway_admin.server import Admin
from gateway_api.routes import Request
from gateway_serving.address import split_address

from gateway_core.contract.errors import StartError
from gateway_core.contract.status import GatewayStatus
from tests import web

pytestmark = pytest.mark.anyio


class Anyone:
    async def caller(self, request: Request) -> Caller:
        return Caller("anyone", "admin")


def nothing() -> GatewayStatus:
    return GatewayStatus("1")


@asynccontextmanager
async def serving(admin: Admin, address: str = "127.0.0.1:0") -> AsyncIterator[httpx.AsyncClient]:
    async with anyio.create_task_group() as tasks:
        url = await admin.start(address, tasks)
        try:
            async with web.async_client(base_url=url, verify=False) as client:
                yield client
        finally:
            await admin.stop()


async def test_status_is_json() -> None:
    async with serving(Admin(lambda: GatewayStatus("1", ready=True, pid=7), callers=Anyone())) as client:
        response = await client.get("/status")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert {"version": "1", "ready": True, "pid": 7}.items() <= response.json().items()


async def test_status_may_be_awaited() -> None:
    async def status() -> GatewayStatus:
        await anyio.lowlevel.checkpoint()
        return GatewayStatus("1", workers=2)

    async with serving(Admin(status, callers=Anyone())) as client:
        assert (await client.get("/status")).json()["workers"] == 2


async def test_probes_say_what_they_are_told() -> None:
    good = {"ready": False, "live": True, "started": False}
    admin = Admin(nothing, lambda: good["ready"], lambda: good["live"], lambda: good["started"])
    async with serving(admin) as client:
        codes = [(await client.get(f"/health/{probe}")).status_code for probe in ("live", "ready", "startup")]
        assert codes == [200, 503, 503]
        good.update(ready=True, started=True, live=False)
        codes = [(await client.get(f"/health/{probe}")).status_code for probe in ("live", "ready", "startup")]
        assert codes == [503, 200, 200]


async def test_what_it_doesnt_know_is_a_problem() -> None:
    async with serving(Admin(nothing, callers=Anyone())) as client:
        missing, wrong = await client.get("/elsewhere"), await client.post("/status")
        head = await client.head("/status")
    assert missing.headers["content-type"] == wrong.headers["content-type"] == "application/problem+json"
    assert missing.json() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "there is nothing at /elsewhere",
    }
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD")
    assert (head.status_code, head.content) == (200, b"")


async def test_a_failing_status_is_a_problem_too(caplog: pytest.LogCaptureFixture) -> None:
    def status() -> GatewayStatus:
        raise RuntimeError("secret")

    async with serving(Admin(status, callers=Anyone())) as client:
        response = await client.get("/status")
    assert (response.status_code, response.json()["detail"]) == (500, "see the log")
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text, "its text may be a stranger's"


async def test_addresses_are_host_and_port() -> None:
    assert split_address("[::1]:9080") == ("::1", 9080)
    assert split_address("localhost:0") == ("localhost", 0)


async def test_a_stop_frees_the_address() -> None:
    async with serving(Admin(nothing, callers=Anyone())) as client:
        address = f"127.0.0.1:{client.base_url.port}"
    async with serving(Admin(nothing), address) as client:
        assert (await client.get("/health/live")).status_code == 200


@pytest.mark.parametrize("address", ["127.0.0.1", ":9080", "127.0.0.1:x", "127.0.0.1:70000"])
async def test_an_address_that_is_none_stops_the_start(address: str) -> None:
    async with anyio.create_task_group() as tasks:
        with pytest.raises(StartError, match="write HOST:PORT"):
            await Admin(nothing).start(address, tasks)


async def test_an_address_that_is_taken_stops_the_start() -> None:
    async with serving(Admin(nothing, callers=Anyone())) as client, anyio.create_task_group() as tasks:
        with pytest.raises(StartError, match="admin: can't listen on 127"):
            await Admin(nothing).start(f"127.0.0.1:{client.base_url.port}", tasks)
