"""Who may call the admin API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from gateway_admin.callers import Caller, Nobody
from gateway_admin.guard import Guard, exposed
from gateway_admin.operators import AdminCallers
from gateway_admin.server import Admin
from gateway_api.routes import Answer, Problem, Request, Route
from gateway_api.tokens import Tokens
from gateway_testing import GatewayProcess

from gateway_core.contract.status import GatewayStatus
from tests import web

pytestmark = pytest.mark.anyio


class Anyone:
    async def caller(self, request: Request) -> Caller:
        return Caller("anyone", "admin")


@asynccontextmanager
async def serving(folder: Path | None = None) -> AsyncIterator[httpx.AsyncClient]:
    def echo(request: Request) -> Answer:
        return Answer({"took": len(request.body), "name": request.params.get("name")})

    routes = [
        Route("POST", "/change", echo, "Change", {200: dict}),
        Route("PUT", "/change/{name}", echo, "Change", {200: dict}),
        Route("GET", "/change/{name}", echo, "Look", {200: dict}),
    ]
    callers = Anyone() if folder is None else AdminCallers(Tokens(folder, "sesame é"))
    admin = Admin(lambda: GatewayStatus("1"), more=routes, callers=callers)
    async with anyio.create_task_group() as tasks:
        url = await admin.start("127.0.0.1:0", tasks)
        try:
            async with web.async_client(base_url=url, trust_env=False, verify=False) as client:
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

    for guard in (Guard("0.0.0.0", Nobody()), Guard("127.0.0.2", Nobody()), Guard("0.0.0.0", Nobody(), ["other"])):
        with pytest.raises(Problem, match=r"is not a name of the admin API.* TIDEGATE_ADMIN_HOSTS"):
            asked(guard, "gateway.internal:9080")
    for host in ("10.1.2.3:9080", "[fe80::1]:9080", "localhost", "Gateway.Internal:9080", "gateway.internal."):
        asked(Guard("0.0.0.0", Nobody(), [" gateway.internal "]), host)
    asked(Guard("127.0.0.2", Nobody(), ["gateway.internal"]), "gateway.internal")
    asked(Guard("127.0.0.2", Nobody(), ["Gateway.internal:9080"]), "gateway.internal:9080")
    with pytest.raises(Problem, match="is not a name of the admin API"):
        asked(Guard("127.0.0.2", Nobody(), ["a:b:c"]), "")
    with pytest.raises(Problem, match="is not a name of the admin API"):
        asked(Guard("127.0.0.1", Nobody()), "10.1.2.3")


async def test_a_foreign_name_is_told_nothing() -> None:
    async with serving() as client:
        assert (await client.get("/nowhere", headers={"host": "evil.example"})).status_code == 403


async def test_a_query_of_too_many_parts_is_refused() -> None:
    async with serving() as client:
        assert (await client.get("/status?" + "&".join(["a=b"] * 1001))).status_code == 400


@pytest.mark.spec("SAFE-14")
def test_an_address_for_others_is_known() -> None:
    assert [a for a in ("0.0.0.0:0", "[::]:0", "127.0.0.1:0", "[::1]:0", "off", "socket") if exposed(a)] == [
        "0.0.0.0:0",
        "[::]:0",
    ]


@pytest.mark.spec("SAFE-14")
@pytest.mark.usefixtures("processes")
def test_others_need_the_token_that_the_gateway_made(tmp_path: Path) -> None:
    config = 'brokers: {b: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n'
    with GatewayProcess(config, tmp_path, None, "--admin", "0.0.0.0:0") as gateway:
        assert "is not encrypted" in gateway.log()
        url = gateway.admin_url.replace("0.0.0.0", "127.0.0.1")
        assert web.get(f"{url}/status", verify=False).status_code == 401
        assert web.get(f"{url}/status", verify=False, headers=gateway.admin_headers).status_code == 200


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


async def test_a_token_is_needed_but_for_health(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        none = await client.get("/status")
        assert (none.status_code, none.headers["www-authenticate"]) == (401, 'Bearer realm="tidegate admin"')
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
