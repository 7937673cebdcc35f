"""Bearer tokens from files, which others renew."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_http.credentials import bearer_file
from gateway_options import renewed
from gateway_testing import Subscriber
from gateway_testing.subscriber import Answer, Received

from gateway_core.contract.event import Event

pytestmark = [pytest.mark.anyio, pytest.mark.spec("OC-06")]


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(autouse=True)
def _always_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewed, "CHECK_S", 0.0)
    monkeypatch.setattr(bearer_file, "CHECK_S", 0.0)


def write(path: Path, text: str) -> None:
    """As the kubelet does: a new file under the same name."""
    (path.parent / "new").write_text(text)
    (path.parent / "new").replace(path)


def jwt(**claims: Any) -> str:
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none'})}.{part(claims)}.c2lnbmF0dXJl"


async def test_the_token_is_that_of_the_file(kit: Any, client: str, tmp_path: Path) -> None:
    write(tmp_path / "token", "first\n")
    given = {"bearer_file": {"path": tmp_path / "token"}}
    with Subscriber() as subscriber:
        async with kit.sink(subscriber.url, client=client, credentials=given, probe=True) as sink:
            for text in ("second", "  third\r\n", "third", "third", "fourth"):
                assert (await kit.send(sink)).delivered
                write(tmp_path / "token", text)
            assert (await kit.send(sink)).delivered
    tokens = [r.headers["authorization"] for r in subscriber.requests if r.method == "POST"]
    assert tokens == [f"Bearer {t}" for t in ("first", "second", "third", "third", "third", "fourth")]
    assert all(len([h for h in r.headers if h == "authorization"]) == 1 for r in subscriber.requests)


@pytest.mark.parametrize("broken", ["", "two tokens", "a\x00b", "tökén", "a" * 20_000])
async def test_a_file_without_a_token_changes_nothing(
    kit: Any, client: str, tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "token", "good")
    with Subscriber() as subscriber:
        async with kit.sink(subscriber.url, credentials={"bearer_file": {"path": tmp_path / "token"}}) as sink:
            assert (await kit.send(sink)).delivered
            write(tmp_path / "token", broken)
            for _ in range(5):
                assert (await kit.send(sink)).delivered
            write(tmp_path / "token", "better")
            assert (await kit.send(sink)).delivered
    assert [r.headers["authorization"] for r in subscriber.requests] == ["Bearer good"] * 6 + ["Bearer better"]
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert not broken or broken not in caplog.text


@pytest.mark.spec("HM-17")
async def test_a_token_that_was_removed_is_sent_no_longer(
    kit: Any, client: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Events wait, and none counts as tried."""
    write(tmp_path / "token", "good")
    with Subscriber() as subscriber:
        given = {"bearer_file": {"path": tmp_path / "token"}}
        async with kit.sink(subscriber.url, client=client, credentials=given) as sink:
            assert (await kit.send(sink)).delivered
            (tmp_path / "token").unlink()
            await kit.send(sink)  # the file may be in the middle of a replacement
            for _ in range(3):
                outcome = await kit.send(sink)
                assert outcome.local
                assert outcome.reason == f"no access token: {tmp_path / 'token'} was removed"
            write(tmp_path / "token", "better")
            assert (await kit.send(sink)).delivered
    assert {r.headers["authorization"] for r in subscriber.requests} == {"Bearer good", "Bearer better"}
    assert [r.getMessage().partition(": ")[2] for r in caplog.records] == [
        f"{tmp_path / 'token'} was removed: its bearer tokens are no longer in use"
    ]


@pytest.mark.spec("OC-05")
@pytest.mark.parametrize("kind", ["missing", "empty", "folder", "pipe"])
async def test_events_wait_for_the_first_token(
    kit: Any, client: str, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    if kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with Subscriber() as subscriber:
        given = {"bearer_file": {"path": path}}
        async with kit.sink(subscriber.url, client=client, credentials=given) as sink:
            outcomes = [await kit.send(sink) for _ in range(5)]
            assert {(o.retry, o.local) for o in outcomes} == {(True, True)}
            assert all(o.reason.startswith(f"no access token: {path}: ") for o in outcomes)
            assert len(caplog.records) == 1
            if kind == "folder":
                path.rmdir()
            write(path, "there")
            assert (await kit.send(sink)).delivered


async def test_a_token_for_another_audience_is_never_sent(kit: Any, tmp_path: Path) -> None:
    path = tmp_path / "token"
    with Subscriber() as subscriber:
        given = {"bearer_file": {"path": path, "audience": "orders"}}
        async with kit.sink(subscriber.url, credentials=given) as sink:
            for wrong in ("opaque", "a.b.c", "a.!.c", jwt(), jwt(aud="billing"), jwt(aud=[]), jwt(aud=7)):
                write(path, wrong)
                outcome = await kit.send(sink)
                assert (outcome.local, wrong in outcome.reason) == (True, False)
                assert outcome.reason.endswith("the token is not for the audience `orders`")
            for right in (jwt(aud="orders"), jwt(aud=["billing", "orders"])):
                write(path, right)
                assert (await kit.send(sink)).delivered
            write(path, jwt(aud="billing"))
            assert (await kit.send(sink)).delivered
    sent = [r.headers["authorization"] for r in subscriber.requests]
    assert sent == [f"Bearer {jwt(aud=a)}" for a in ("orders", ["billing", "orders"], ["billing", "orders"])]


@pytest.mark.slow
@pytest.mark.spec("OC-04")
async def test_a_refused_token_may_have_been_replaced(
    kit: Any, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is read once a second, so that a token may be older than the file."""
    monkeypatch.setattr(bearer_file, "CHECK_S", 0.5)
    write(tmp_path / "token", "old")

    def guard(request: Received) -> Answer:
        return 202 if request.headers["authorization"] == "Bearer new" else 401

    with Subscriber(decide=guard) as subscriber:
        given = {"bearer_file": {"path": tmp_path / "token"}}
        async with kit.sink(subscriber.url, client=client, credentials=given) as sink:
            outcomes = [await kit.send(sink) for _ in range(3)]
            assert {(o.code, o.retry) for o in outcomes} == {(401, True)}
            await anyio.sleep(0.6)
            outcome = await kit.send(sink)
            assert (outcome.code, outcome.retry) == (401, False), "the file has nothing better"
            write(tmp_path / "token", "new")
            assert (await kit.send(sink)).delivered


@pytest.mark.spec("OC-07")
def test_a_preview_reads_no_token(kit: Any, client: str, tmp_path: Path) -> None:
    given = {"bearer_file": {"path": tmp_path / "missing"}}
    sink = kit.build("sink", {"url": "https://h/", "client": client, "credentials": given}, offline=True)
    headers = sink.preview(Event({"specversion": "1.0", "id": "1", "type": "t"}, b"{}")).headers
    assert [value for name, value in headers if name == b"authorization"] == [b"****"]
