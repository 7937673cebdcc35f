"""Who may call the admin API."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from gateway_admin.guard import Guard, exposed
from gateway_admin.routes import Answer, Problem, Request, Route
from gateway_admin.server import Admin

from gateway_core.contract.errors import StartError
from gateway_core.contract.status import GatewayStatus

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def serving(token: str = "") -> AsyncIterator[httpx.AsyncClient]:
    def echo(request: Request) -> Answer:
        return Answer({"took": len(request.body), "name": request.params.get("name")})

    routes = [
        Route("POST", "/change", echo, "Change", {200: dict}),
        Route("PUT", "/change/{name}", echo, "Change", {200: dict}),
        Route("GET", "/change/{name}", echo, "Look", {200: dict}),
    ]
    admin = Admin(lambda: GatewayStatus("1"), more=routes, token=token)
    async with anyio.create_task_group() as tasks:
        url = await admin.start("127.0.0.1:0", tasks)
        try:
            async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False) as client:
                yield client
        finally:
            await admin.stop()


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://localhost:1"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
async def test_pages_of_other_origins_change_nothing(headers: dict[str, str]) -> None:
    async with serving() as client:
        refused = await client.post("/change", headers=headers)
        looked = await client.get("/status", headers=headers)
    assert (refused.status_code, looked.status_code) == (403, 200)
    assert refused.headers["content-type"] == "application/problem+json"


async def test_its_own_pages_and_programs_may() -> None:
    async with serving() as client:
        own = f"http://127.0.0.1:{client.base_url.port}"
        headers = {"origin": own, "sec-fetch-site": "same-origin"}
        assert (await client.post("/change", headers=headers)).status_code == 200
        assert (await client.post("/change", headers={"sec-fetch-site": "none"})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9080", "127.0.0.1.evil.example", "[::2]:1", ""])
async def test_a_name_that_was_made_to_lead_here_is_refused(host: str) -> None:
    async with serving() as client:
        assert (await client.get("/status", headers={"host": host})).status_code == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8", "[::1]:9", "localhost."])
async def test_the_names_of_this_machine_are_taken(host: str) -> None:
    async with serving() as client:
        assert (await client.get("/status", headers={"host": host})).status_code == 200


@pytest.mark.spec("SAFE-14")
def test_an_address_for_others_has_addresses_and_the_names_that_are_set() -> None:
    def asked(guard: Guard, host: str) -> None:
        guard.check_host(Request("GET", "/", headers={"host": host}))

    for guard in (Guard("0.0.0.0"), Guard("127.0.0.2"), Guard("0.0.0.0", names=["other"])):
        with pytest.raises(Problem, match=r"is not a name of the admin API.* TIDEGATE_ADMIN_HOSTS"):
            asked(guard, "gateway.internal:9080")
    for host in ("10.1.2.3:9080", "[fe80::1]:9080", "localhost", "Gateway.Internal:9080", "gateway.internal."):
        asked(Guard("0.0.0.0", names=[" gateway.internal "]), host)
    asked(Guard("127.0.0.2", names=["gateway.internal"]), "gateway.internal")
    with pytest.raises(Problem, match="is not a name of the admin API"):
        asked(Guard("127.0.0.1"), "10.1.2.3")


async def test_a_foreign_name_is_told_nothing() -> None:
    async with serving() as client:
        assert (await client.get("/nowhere", headers={"host": "evil.example"})).status_code == 403


async def test_a_query_of_too_many_parts_is_refused() -> None:
    async with serving() as client:
        assert (await client.get("/status?" + "&".join(["a=b"] * 1001))).status_code == 400


@pytest.mark.spec("SAFE-14")
@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
async def test_others_need_a_token(address: str) -> None:
    async with anyio.create_task_group() as tasks:
        with pytest.raises(StartError, match=r"without a token: set TIDEGATE_ADMIN_TOKEN, or listen"):
            await Admin(lambda: GatewayStatus("1")).start(address, tasks)
    assert exposed(address, "") != ""
    assert exposed("127.0.0.1:0", "") == exposed("localhost:0", "") == exposed("[::1]:0", "") == ""
    assert exposed(address, "secret") == exposed("off", "") == exposed("socket", "") == ""


@pytest.mark.spec("SAFE-14")
@pytest.mark.usefixtures("processes")
def test_check_says_so_and_run_refuses(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text('brokers: {b: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n')
    env = {**os.environ, "TIDEGATE_ADMIN": "0.0.0.0:0", "TIDEGATE_DATA_DIR": str(tmp_path / "d")}
    env.pop("TIDEGATE_ADMIN_TOKEN", None)

    def tidegate(command: str, **more: str) -> tuple[int, str]:
        words = [sys.executable, "-m", "gateway_core.cli", command, str(tmp_path / "t.yaml")]
        done = subprocess.run(words, env={**env, **more}, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        return done.returncode, done.stdout + done.stderr

    for command, code in (("check", 1), ("run", 3)):
        found = tidegate(command)
        assert found[0] == code
        assert "could change the gateway without a token" in found[1]
        assert "set TIDEGATE_ADMIN_TOKEN" in found[1]
    assert tidegate("check", TIDEGATE_ADMIN_TOKEN="secret")[0] == 0


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
async def test_what_forms_send_is_not_taken(media: str) -> None:
    async with serving() as client:
        refused = await client.post("/change", content=b"{}", headers={"content-type": media})
        bare = await client.post("/change", content=b"{}")
        good = await client.post("/change", content=b"{}", headers={"content-type": "application/YAML; charset=utf-8"})
    assert (refused.status_code, bare.status_code, good.json()["took"]) == (415, 415, 2)


async def test_a_body_may_have_a_mebibyte() -> None:
    media = {"content-type": "application/json"}
    async with serving() as client:
        assert (await client.post("/change", content=b" " * 1024 * 1024, headers=media)).status_code == 200
        assert (await client.post("/change", content=b" " * (1024 * 1024 + 1), headers=media)).status_code == 413


async def test_a_token_is_needed_but_for_health() -> None:
    async with serving("sesame é") as client:
        none = await client.get("/status")
        assert (none.status_code, none.headers["www-authenticate"]) == (401, "Bearer")
        for wrong in ("Bearer sesame", "Basic sesame", "sesame é"):
            headers = {b"authorization": wrong.encode()}
            assert (await client.get("/openapi.json", headers=headers)).status_code == 401
            assert (await client.post("/change", headers=headers)).status_code == 401
        assert (await client.get("/health/live")).status_code == 200
        right = {b"authorization": "Bearer sesame é".encode()}
        assert (await client.get("/status", headers=right)).status_code == 200


async def test_names_in_paths_are_decoded_once() -> None:
    async with serving() as client:
        assert (await client.get("/change/a%2Fb%2541")).json()["name"] == "a/b%41"
        assert (await client.get("/change/a/b")).status_code == 404
        wrong = await client.delete("/change/x")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "PUT, GET, HEAD")
