"""Who may send over WebSocket: checked in the opening handshake, and again while the connection is open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_access.exposure import is_open
from gateway_auth.keys import add_key, remove_keys
from gateway_auth.passwords import hash_of, set_password
from gateway_testing.suites import Kit
from gateway_websocket.config import WebSocketSourceConfig
from websockets.exceptions import InvalidStatus

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load_all
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests.auth.rig import basic
from tests.in_process import started
from tests.websocket.far import ACK, PLAIN
from tests.websocket.rig import EVENT, KEY, UPGRADE, client, closed, handshake, ids, source, speaks

pytestmark = pytest.mark.anyio


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, Any]:
    """An `api_key` with a file of its own."""
    return {"api_key": {"file": tmp_path / "keys.json"}}


def new(authenticator: dict[str, Any], name: str = "device") -> dict[str, str]:
    """The header of a new key."""
    return {"x-api-key": add_key(authenticator["api_key"]["file"], name)[1]}


@pytest.mark.spec("WS-13")
async def test_a_connection_needs_credentials_and_its_events_have_their_sender(
    kit: Kit, keys: dict[str, Any], tmp_path: Path
) -> None:
    key = new(keys)
    async with source(kit, authenticate=[keys]) as (made, intake):
        for wrong in ({}, {"x-api-key": "tgk_wrong"}, {"x-api-key": key["x-api-key"][:-1] + "!"}):
            with pytest.raises(InvalidStatus) as refused:
                async with client(made.address, additional_headers=wrong):
                    pass
            answer = refused.value.response
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("ApiKey ")
            assert json.loads(answer.body or b"")["status"] == 401
        assert made.info()["connections"] == 0
        async with client(made.address, additional_headers=key) as connection:
            for number in range(3):
                await connection.send(EVENT % number)
                assert json.loads(await connection.recv()) == {"ack": number + 1}
        assert {event.identity.subject for event in intake.events if event.identity} == {"key device"}
        assert len(intake.events) == 3
        assert sum(made.metrics()["tidegate_websocket_denied_total"].values()) == 3


@pytest.mark.spec("WS-13")
@pytest.mark.usefixtures("real_time")
async def test_what_comes_before_the_credentials_are_checked_waits(kit: Kit, tmp_path: Path) -> None:
    users = tmp_path / "users.json"
    set_password(users, "ann", hash_of(b"right", 14))
    async with source(kit, authenticate=[{"basic": {"file": users}}]) as (made, intake):
        name, value = basic("ann", "right")
        text = EVENT % "early"
        frame = bytes([0x81, 0x80 | 126, *len(text).to_bytes(2), 0, 0, 0, 0]) + text.encode()
        host, _, port = made.address.removeprefix("ws://").strip("/").partition(":")
        lines = ["GET / HTTP/1.1", f"Host: {host}:{port}", *UPGRADE, KEY, speaks(ACK), f"{name}: {value}"]
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send("\r\n".join([*lines, "", ""]).encode() + frame)
            said = b""
            with anyio.fail_after(30):
                while b'{"ack":1}' not in said:
                    said += await stream.receive()
        assert said.startswith(b"HTTP/1.1 101 ")
        assert ids(intake.events) == ["early"]
        # who leaves meanwhile, or has a wrong password, changes nothing for others
        async with await anyio.connect_tcp(host, int(port)) as stream:
            lines[-1] = "{}: {}".format(*basic("ann", "left"))
            await stream.send("\r\n".join([*lines, "", ""]).encode() + frame)
        status, _, _ = await handshake(
            made.address, *UPGRADE, KEY, speaks(ACK), "{}: {}".format(*basic("ann", "wrong"))
        )
        assert status.split()[1] == "401"
        async with client(made.address, additional_headers={name: value}) as connection:
            await connection.send(EVENT % "later")
            await connection.recv()
        assert ids(intake.events) == ["early", "later"]


@pytest.mark.spec("WS-13")
async def test_a_sender_may_send_only_what_is_allowed(kit: Kit, keys: dict[str, Any]) -> None:
    key = new(keys)
    allow = [{"from": ["key device"], "filters": [{"exact": {"id": "allowed"}}]}]
    options = {"authenticate": [keys], "allow": allow, "auth_context": True, "not_an_event": "wrap"}
    async with source(kit, **options) as (made, intake):
        for subprotocol in (ACK, PLAIN):
            intake.events.clear()
            async with client(made.address, subprotocol, additional_headers=key) as connection:
                await connection.send(EVENT % "denied")
                await connection.send(EVENT % "allowed")
                if subprotocol == ACK:
                    answers = [json.loads(await connection.recv()) for _ in range(2)]
                    nack = next(a for a in answers if "nack" in a)
                    assert (nack["nack"], nack["retry"], nack["problem"]["status"]) == (1, False, 403)
                with anyio.fail_after(30):
                    while not intake.events:  # noqa: ASYNC110 - the plain subprotocol has no answers
                        await anyio.sleep(0.01)
            assert ids(intake.events) == ["allowed"]
            assert intake.events[0].attributes["authid"] == "key device"
        assert intake.letters == []


@pytest.mark.spec("WS-13")
@pytest.mark.parametrize("what", ["wrap", "dead_letter"])
async def test_what_is_no_event_is_admitted_like_any_other(kit: Kit, keys: dict[str, Any], what: str) -> None:
    """On the plain subprotocol, where it is wrapped, or kept as a dead letter."""
    key, stranger = new(keys), new(keys, "stranger")
    allow = [{"from": ["key device"], "filters": [{"any": [{"exact": {"id": "last"}}, {"prefix": {"type": "dev."}}]}]}]
    quota = {"per_identity": {"max_event_bytes": 250, "events_per_s": 0.001, "burst_s": 3000}}
    options = {"authenticate": [keys], "allow": allow, "auth_context": True, "not_an_event": what, "quota": quota}
    async with source(kit, **options) as (made, intake):
        for sender in (stranger, key):
            intake.refused.clear()
            async with client(made.address, PLAIN, additional_headers=sender) as connection:
                for text in ("x" * 300, "no event", f"{EVENT % 'last'}{' ' * 300}", EVENT % ("last" * 100)):
                    await connection.send(text)
                for text in ("no event", "no event"):
                    await connection.send(text)
                with anyio.fail_after(30):
                    while len(intake.refused) + len(intake.events) + len(intake.letters) < 6:  # noqa: ASYNC110
                        await anyio.sleep(0.01)
            if sender is stranger:
                assert [error.status for error in intake.refused] == [403] * 6
                assert intake.events == []
                assert intake.letters == []
        assert [error.status for error in intake.refused] == [413, 403, 429]
        made_of = [event for event, _, _ in intake.letters] if what == "dead_letter" else intake.events
        assert [event.data for event in made_of if event.attributes["id"] != "last"] == [b"no event"] * 2
        assert [event.attributes["authid"] for event in intake.events] == ["key device"] * len(intake.events)
        assert {event.identity.subject for event in made_of if event.identity} == {"key device"}


@pytest.mark.spec("WS-13")
async def test_a_wrapped_message_needs_to_be_allowed(kit: Kit, keys: dict[str, Any]) -> None:
    key = new(keys)
    allow = [{"from": ["key device"], "filters": [{"prefix": {"type": "order."}}]}]
    async with source(kit, authenticate=[keys], allow=allow, not_an_event="wrap") as (made, intake):
        async with client(made.address, PLAIN, additional_headers=key) as connection:
            await connection.send("no event")
            with anyio.fail_after(30):
                while not intake.refused:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
        assert [error.status for error in intake.refused] == [403]
        assert intake.events == intake.letters == []


@pytest.mark.spec("WS-13")
async def test_what_a_policy_of_the_broker_denies_is_no_dead_letter(tmp_path: Path, keys: dict[str, Any]) -> None:
    key, dead = new(keys), tmp_path / "dead.jsonl"
    listen = {"listen": "127.0.0.1:0", "acknowledge": "optional", "authenticate": [keys]}
    policy = {"brokers": ["default"], "from": ["key device"], "filters": [{"exact": {"id": "allowed"}}]}
    broker = {"ingress": [{"websocket": listen}], "dead_letter": {"file": {"path": str(dead)}}}
    file = tmp_path / "tidegate.json"
    file.write_text(json.dumps({"brokers": {"default": broker}, "policies": {"own": policy}}, default=str))
    registry = Registry.installed()
    gateway = Gateway(load_all([file], registry, {}).config, Settings(data_dir=tmp_path / "d", admin="off"), registry)
    async with started(gateway):
        async with client(gateway.ingress["default"][0], PLAIN, additional_headers=key) as connection:
            for id in ("denied", "allowed", "denied", "no", "allowed"):
                await connection.send(EVENT % id)
            with anyio.fail_after(30):
                while (status := gateway.status().brokers[0]).accepted < 2:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
        assert status.refused >= 3
    assert not dead.exists() or dead.read_text() == ""


@pytest.mark.slow
@pytest.mark.spec("WS-13")
async def test_a_connection_ends_when_its_key_is_revoked(kit: Kit, keys: dict[str, Any]) -> None:
    key, other = new(keys), new(keys, "other")
    async with (
        source(kit, authenticate=[keys], recheck_s=0.05) as (made, intake),
        client(made.address, additional_headers=key) as connection,
        client(made.address, additional_headers=other) as stays,
    ):
        remove_keys(keys["api_key"]["file"], [key["x-api-key"][4:16]])
        assert await closed(connection) == 1008
        await stays.send(EVENT % "1")
        assert json.loads(await stays.recv()) == {"ack": 1}
        assert len(intake.events) == 1


@pytest.mark.spec("WS-13")
@pytest.mark.parametrize("subprotocol", [ACK, PLAIN])
async def test_the_bytes_of_messages_are_counted(kit: Kit, keys: dict[str, Any], subprotocol: str) -> None:
    key, text = new(keys), EVENT % "1"
    quota = {"per_identity": {"bytes_per_s": 0.1, "burst_s": len(text) * 25}}  # two of them, and a half
    async with source(kit, authenticate=[keys], quota=quota, not_an_event="wrap") as (made, intake):
        async with client(made.address, subprotocol, additional_headers=key) as connection:
            for message in ("x" * len(text) * 3, text, text, text, "x" * len(text)):
                await connection.send(message)
            with anyio.fail_after(30):
                while len(intake.events) + len(intake.refused) < 5:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            if subprotocol == ACK:
                answers = [json.loads(await connection.recv()) for _ in range(4)]
                nacks = [(a["nack"], a["retry"], a["problem"]["status"]) for a in answers if "nack" in a]
                assert nacks == [(1, False, 413), (4, True, 429), (5, True, 429)]
        assert [error.status for error in intake.refused] == [413, 429, 429]
        assert ids(intake.events) == ["1", "1"]
        assert intake.letters == []


@pytest.mark.slow
@pytest.mark.spec("WS-13")
async def test_no_quota_keeps_a_revoked_key_connected(kit: Kit, keys: dict[str, Any]) -> None:
    key = new(keys)
    async with (
        source(kit, authenticate=[keys], recheck_s=0.05, quota={"failures_per_minute": 1}) as (made, _),
        client(made.address, additional_headers=key) as connection,
    ):
        for status in ("401", "429"):  # somebody at the same address
            assert (await handshake(made.address, *UPGRADE, KEY, speaks(ACK)))[0].split()[1] == status
        remove_keys(keys["api_key"]["file"], [key["x-api-key"][4:16]])
        assert await closed(connection) == 1008


@pytest.mark.spec("WS-13")
@pytest.mark.usefixtures("real_time")
async def test_checks_of_open_connections_use_up_no_quota(kit: Kit, keys: dict[str, Any]) -> None:
    key, others = new(keys), [new(keys, name) for name in ("first", "second")]
    quota = {"per_identity": {"requests_per_s": 0.001, "burst_s": 2000}}
    async with source(kit, authenticate=[keys], recheck_s=0.02, quota=quota) as (made, _):
        async with client(made.address, additional_headers=key):
            for other in others:  # at least one round of checks is complete when both are noticed
                async with client(made.address, additional_headers=other) as ends:
                    remove_keys(keys["api_key"]["file"], [other["x-api-key"][4:16]])
                    assert await closed(ends) == 1008
            async with client(made.address, additional_headers=key):
                pass
        with pytest.raises(InvalidStatus):
            async with client(made.address, additional_headers=key):
                pass


async def test_a_token_and_a_key_are_both_needed(kit: Kit, keys: dict[str, Any]) -> None:
    key, token = new(keys), {"authorization": "Bearer s3cret"}
    async with source(kit, authenticate=[keys], token="s3cret") as (made, _):
        for some in (key, token):
            with pytest.raises(InvalidStatus):
                async with client(made.address, additional_headers=some):
                    pass
        async with client(made.address, additional_headers={**key, **token}) as connection:
            assert connection.subprotocol == ACK


def test_options_of_access_are_for_listeners(keys: dict[str, Any]) -> None:
    for options in ({"anonymous": True}, {"recheck_s": 5}, {"auth_context": True}):
        with pytest.raises(ValueError, match="only with `listen`"):
            WebSocketSourceConfig(url="ws://127.0.0.1:1/", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "open_"),
    [
        ({"listen": "0.0.0.0:8090"}, True),
        ({"listen": "0.0.0.0:8090", "anonymous": True}, False),
        ({"listen": "0.0.0.0:8090", "token": "s3cret"}, False),
        ({"listen": "0.0.0.0:8090", "anonymous": False}, False),  # nobody comes in
        ({"listen": "127.0.0.1:8090"}, False),
        ({"url": "ws://example.com/"}, False),
    ],
)
def test_an_open_listener_is_known(options: dict[str, Any], open_: bool) -> None:
    assert is_open(WebSocketSourceConfig(**options)) == open_
