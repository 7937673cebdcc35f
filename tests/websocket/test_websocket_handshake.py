"""Who may connect to what listens, and what the others are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme
from gateway_testing.suites import Kit
from gateway_testing.suites.sink import attempt, numbered

from gateway_core.contract.errors import StartError
from tests.websocket.far import ACK, PLAIN
from tests.websocket.rig import EVENT, KEY, UPGRADE, client, closed, free_port, handshake, sink, source, speaks

pytestmark = pytest.mark.anyio


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


async def refused(url: str, *lines: str, method: str = "GET") -> tuple[int, dict[str, str], dict[str, Any]]:
    status, headers, body = await handshake(url, *lines, method=method)
    assert headers["content-type"] == "application/problem+json"
    problem = json.loads(body)
    assert problem["status"] == int(status.split()[1])
    return problem["status"], headers, problem


@pytest.mark.spec("WS-02")
@pytest.mark.parametrize("lines", [(), (speaks("cloudevents.avro", "mqtt"),), (speaks(PLAIN.upper()),)])
async def test_without_a_common_subprotocol_the_handshake_fails_and_names_none(kit: Kit, lines: tuple[str]) -> None:
    async with source(kit) as (made, intake):
        status, headers, problem = await refused(made.address, *UPGRADE, KEY, *lines)
        assert status == 400
        assert "sec-websocket-protocol" not in headers
        assert "subprotocol" in problem["detail"]
        assert intake.events == []


@pytest.mark.spec("WS-02")
@pytest.mark.parametrize(
    ("acknowledge", "offered", "chosen"),
    [
        ("optional", (PLAIN, ACK), ACK),
        ("optional", ("cloudevents.avro", PLAIN), PLAIN),
        ("off", (ACK, PLAIN), PLAIN),
        ("required", (PLAIN, ACK), ACK),
        ("required", (PLAIN,), None),
        ("off", (ACK,), None),
    ],
)
async def test_the_subprotocol_is_one_that_both_have(
    kit: Kit, acknowledge: str, offered: tuple[str, ...], chosen: str | None
) -> None:
    async with source(kit, acknowledge=acknowledge) as (made, _):
        status, headers, _ = await handshake(made.address, *UPGRADE, KEY, speaks(*offered))
        assert headers.get("sec-websocket-protocol") == chosen
        assert status.split()[1] == ("101" if chosen else "400")
        if chosen:
            assert headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # RFC 6455 section 1.3


async def test_what_is_no_handshake_gets_a_problem(kit: Kit) -> None:
    async with source(kit, path="/in") as (made, intake):
        assert (await refused(made.address))[0] == 426
        status, headers, _ = await refused(made.address, *UPGRADE, KEY, speaks(ACK), method="POST")
        assert (status, headers["allow"]) == (405, "GET")
        assert (await refused(made.address, *UPGRADE, speaks(ACK)))[0] == 400
        assert (await refused(made.address + "n", *UPGRADE, KEY, speaks(ACK)))[0] == 404
        assert (await refused(made.address, *UPGRADE, KEY, speaks(ACK), "X: " + "x" * 70_000))[0] == 431
        assert (await refused(made.address, *UPGRADE, KEY, speaks(ACK), "X: " + "x" * 9000))[0] == 431
        assert intake.events == []
        async with client(made.address):
            pass


@pytest.mark.spec("WS-10")
async def test_web_pages_connect_only_from_listed_origins(kit: Kit) -> None:
    page = "Origin: https://app.example.com"
    async with source(kit) as (closed_source, _):
        assert (await refused(closed_source.address, *UPGRADE, KEY, speaks(ACK), page))[0] == 403
    async with source(kit, origins=["https://app.example.com"]) as (made, _):
        for lines, wanted in (((page,), "101"), ((), "101"), (("Origin: https://evil.example.com",), "403")):
            status, _, _ = await handshake(made.address, *UPGRADE, KEY, speaks(ACK), *lines)
            assert status.split()[1] == wanted
    async with source(kit, origins=["*"]) as (open_source, _):
        status, _, _ = await handshake(open_source.address, *UPGRADE, KEY, speaks(ACK), "Origin: null")
        assert status.split()[1] == "101"


@pytest.mark.spec("WS-10")
async def test_a_token_is_required_and_sent(kit: Kit) -> None:
    port = free_port()
    async with source(kit, listen=f"127.0.0.1:{port}", token="s3cret") as (made, intake):
        for lines in ((), ("Authorization: Bearer wrong",), ("Authorization: Bearer s3cret",) * 2):
            status, headers, _ = await refused(made.address, *UPGRADE, KEY, speaks(ACK), *lines)
            assert (status, headers["www-authenticate"]) == (401, "Bearer")
        stranger: Any = kit.sink("websocket", {"url": made.address, "token": "other"})
        async with anyio.create_task_group() as tasks:
            with pytest.raises(StartError, match="401") as error:
                await stranger.start(tasks)
        assert "other" not in str(error.value)
        async with sink(kit, url=made.address, token="s3cret") as sender:
            assert sender._senders[0].acknowledges
        assert intake.events == []


async def test_ends_with_one_address_share_it_by_path(kit: Kit) -> None:
    listen = f"127.0.0.1:{free_port()}"
    async with source(kit, listen=listen, path="/a") as (a, of_a):
        b: Any = kit.source("websocket", {"listen": listen, "path": "/b", "limits": {"max_connections": 5}})
        async with anyio.create_task_group() as tasks:
            b._context = _owned(b, "other")
            with pytest.raises(StartError, match="tls, limits and hosts must be the same"):
                await b.start(of_a, tasks)
        async with sink(kit, listen=listen, path="/c"), client(f"ws://{listen}/c"), client(a.address) as sender:
            await sender.send(EVENT % 1)
            assert json.loads(await sender.recv()) == {"ack": 1}
        same: Any = kit.source("websocket", {"listen": listen, "path": "/a"})
        same._context = _owned(same, "other")
        async with anyio.create_task_group() as tasks:
            with pytest.raises(StartError, match="already serves the path '/a'"):
                await same.start(of_a, tasks)


def _owned(made: Any, owner: str) -> Any:
    from dataclasses import replace

    return replace(made._context, owner=owner)


@pytest.mark.spec("WS-12")
async def test_a_successor_takes_the_address_over(kit: Kit) -> None:
    listen = f"127.0.0.1:{free_port()}"
    async with source(kit, listen=listen) as (old, intake), client(old.address) as first:
        await first.send(EVENT % 1)
        assert json.loads(await first.recv()) == {"ack": 1}
        new: Any = kit.source("websocket", {"listen": listen, "max_unacknowledged": 5})
        async with anyio.create_task_group() as tasks:
            assert await new.take_over(old, intake, tasks)
            assert await closed(first) == 1001
            async with client(new.address) as second:
                await second.send(EVENT % 2)
                assert json.loads(await second.recv()) == {"ack": 1}
            await new.stop()
        with pytest.raises(OSError, match=r"refused|failed"):
            async with client(new.address):
                pass


@pytest.mark.slow
@pytest.mark.spec("WS-04", "WS-10")
async def test_wss_both_ways_and_strangers_without_a_certificate_stay_out(kit: Kit) -> None:
    ca = trustme.CA()
    server, mine = ca.issue_cert("127.0.0.1"), ca.issue_cert("gateway@example.com")
    files = {name: kit.folder / f"{name}.pem" for name in ("ca", "cert", "key", "mine")}
    ca.cert_pem.write_to_path(str(files["ca"]))
    server.cert_chain_pems[0].write_to_path(str(files["cert"]))
    server.private_key_pem.write_to_path(str(files["key"]))
    mine.private_key_and_cert_chain_pem.write_to_path(str(files["mine"]))
    port = free_port()
    tls = {"cert_file": str(files["cert"]), "key_file": str(files["key"]), "client_ca_file": str(files["ca"])}
    async with source(kit, listen=f"127.0.0.1:{port}", tls=tls) as (made, intake):
        assert made.address == f"wss://127.0.0.1:{port}/"
        client_tls = {"ca_file": str(files["ca"]), "cert_file": str(files["mine"])}
        async with sink(kit, url=made.address, client_tls=client_tls) as sender:
            assert (await attempt(sender, numbered(1)[0])).delivered
            assert [e.attributes["id"] for e in intake.events] == ["n0"]
        for wrong in ({"ca_file": str(files["ca"])}, {}):  # without a certificate; without trust in the server's
            async with sink(kit, url=made.address, client_tls=wrong) as stranger:
                assert not (await attempt(stranger, numbered(1)[0], 5)).delivered
        assert len(intake.events) == 1
