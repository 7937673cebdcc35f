"""Tokens of clients that connect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_http.credentials import bearer_file
from gateway_options import renewed
from gateway_testing import Subscriber
from gateway_testing.subscriber import Answer, Received
from gateway_testing.suites import Kit
from gateway_testing.suites.sink import attempt, numbered
from gateway_websocket.config import WebSocketSinkConfig

from gateway_core.contract.errors import StartError
from tests.websocket.rig import ids, sink, source

pytestmark = [pytest.mark.anyio, pytest.mark.spec("OC-11")]
TOKEN = "s3cret"
(EVENT,) = numbered(1)


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


@pytest.fixture(autouse=True)
def _always_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewed, "CHECK_S", 0.0)


def oauth2(url: str) -> dict[str, Any]:
    return {"oauth2": {"token_url": url, "client_id": "us", "client_secret": "hush"}}


async def test_the_token_of_a_file(kit: Kit, tmp_path: Path) -> None:
    """A connection that was refused is tried again, with the token that is in the file then."""
    (tmp_path / "token").write_text("other")
    given = {"bearer_file": {"path": tmp_path / "token"}}
    async with source(kit, token=TOKEN) as (made, intake):
        async with sink(kit, url=made.address, credentials=given) as sender:
            assert sender._connection is not None
            assert not sender._connection.connected
            (tmp_path / "token").write_text(TOKEN)
            with anyio.fail_after(30):
                while not (await attempt(sender, EVENT)).delivered:
                    pass
            assert sender._connection.connected
        assert ids(intake.events) == [EVENT.attributes["id"]]


async def test_a_token_that_stays_wrong_stops_the_start(
    kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bearer_file, "CHECK_S", -1.0)
    (tmp_path / "token").write_text("wr0ng")
    async with source(kit, token=TOKEN) as (made, _):
        given = {"bearer_file": {"path": tmp_path / "token"}}
        stranger: Any = kit.sink("websocket", {"url": made.address, "credentials": given})
        async with anyio.create_task_group() as tasks:
            with pytest.raises(StartError, match="401") as error:
                await stranger.start(tasks)
        assert "wr0ng" not in str(error.value)


@pytest.mark.usefixtures("real_time")
async def test_a_token_of_an_authorization_server(kit: Kit) -> None:
    """The first token is refused: the second try has another."""
    tokens = iter(["revoked", TOKEN, TOKEN])

    def grant(request: Received) -> Answer:
        return 200, {}, json.dumps({"access_token": next(tokens), "token_type": "bearer"}).encode()

    with Subscriber(decide=grant) as endpoint:
        async with source(kit, token=TOKEN) as (made, intake):
            async with sink(kit, url=made.address, credentials=oauth2(endpoint.url)) as sender:
                with anyio.fail_after(30):
                    while not (await attempt(sender, EVENT)).delivered:
                        pass
            assert len(intake.events) == 1
        assert len(endpoint.requests) == 2


async def test_without_a_token_nothing_is_sent(kit: Kit) -> None:
    with Subscriber(default=(500, {}, b"hush")) as endpoint:
        async with source(kit, token=TOKEN) as (made, intake):
            async with sink(kit, url=made.address, credentials=oauth2(endpoint.url)) as sender:
                outcome = await attempt(sender, EVENT)
                assert outcome.retry
                assert "no access token" in outcome.reason
                assert "500 Internal Server Error" in outcome.reason
                assert "hush" not in outcome.reason
            assert intake.events == []


@pytest.mark.spec("OC-07")
@pytest.mark.parametrize("kind", ["bearer_file", "token"])
async def test_a_server_that_repeats_the_token_brings_it_nowhere(
    kit: Kit, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = "tok-" + "0123456789" * 40

    def repeat(request: Received) -> Answer:
        return 500, {}, f"{'x' * 100} {request.headers['authorization']}".encode()

    (tmp_path / "token").write_text(token)
    given: dict[str, Any] = {"token": token}
    if kind == "bearer_file":
        given = {"credentials": {"bearer_file": {"path": tmp_path / "token"}}}
    with Subscriber(decide=repeat) as server:
        url = server.url.replace("http:", "ws:")
        async with sink(kit, url=url, acknowledge="required", **given) as sender:
            outcome = await attempt(sender, EVENT)
            assert sender._connection is not None
            shown = f"{outcome.reason} {sender._connection.error} {caplog.text}"
    assert "the server answered 500" in shown
    assert "tok-" not in shown
    assert "Bearer ****" in shown


async def test_check_sends_the_token_too(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    async with source(kit, token=TOKEN) as (made, _):
        for path, works in (("token", True), ("missing", False)):
            options = {"url": made.address, "credentials": {"bearer_file": {"path": tmp_path / path}}}
            config = WebSocketSinkConfig.model_validate(options)
            if works:
                await anyio.to_thread.run_sync(config.connect, 10.0)
            else:
                with pytest.raises(OSError, match="no access token"):
                    await anyio.to_thread.run_sync(config.connect, 10.0)


_FILE: dict[str, Any] = {"credentials": {"bearer_file": {"path": "t"}}}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"url": "wss://h/", "token": "t", **_FILE}, "two tokens"),
        ({"url": "wss://h/", "headers": {"authorization": "x"}, **_FILE}, "leave it out of `headers`"),
        ({"listen": "127.0.0.1:0", **_FILE}, "has a meaning only with `url`"),
        ({"url": "wss://h/", "credentials": {"hmac": {}}}, "hmac"),
    ],
)
def test_a_config_that_cannot_be_meant(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as raised:
        WebSocketSinkConfig.model_validate(given)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"url": "ws://orders.example/"}, ["can be read on the way"]),
        ({"url": "ws://127.0.0.1:1/"}, []),
        ({"url": "wss://orders.example/"}, []),
        ({"url": "wss://orders.example/", "client_tls": {"verify": False}}, ["whoever answers"]),
    ],
)
def test_what_others_can_read_is_warned_of(given: dict[str, Any], words: list[str]) -> None:
    options = WebSocketSinkConfig.model_validate({"acknowledge": "required", **given, **_FILE})
    found = [text for _, text, _ in options.warnings()]
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))
