"""Who may call a function, and what the function learns of it."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from gateway_auth.basic import BasicAuthenticator
from gateway_auth.keys import add_key
from gateway_testing import Received, Subscriber
from gateway_testing.suites import Kit, MemoryIntake

from gateway_core.contract.event import Message
from gateway_core.contract.identity import Identity
from tests import web

pytestmark = pytest.mark.anyio


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


def answer(received: Received) -> Any:
    """What the function returns: an event with the type that the body names."""
    event = {"specversion": "1.0", "id": "1", "source": "/f", "type": json.loads(received.body)["data"]}
    return 200, {"content-type": "application/cloudevents+json"}, json.dumps(event).encode()


@asynccontextmanager
async def calls(
    kit: Kit, decide: Callable[[Received], Any] = answer, **options: Any
) -> AsyncIterator[tuple[Any, MemoryIntake, Subscriber, httpx.AsyncClient]]:
    """A source with a function behind it."""
    with Subscriber(decide=decide) as function:
        called = {"http": {"url": function.url, "codec": "fn"}}
        source: Any = kit.source("fn", {"listen": "127.0.0.1:0", "function": called, "version": "1.0", **options})
        intake = MemoryIntake()
        client = web.async_client(verify=False, timeout=60)
        async with anyio.create_task_group() as tasks, client:
            await source.start(intake, tasks)
            try:
                yield source, intake, function, client
            finally:
                with anyio.fail_after(30, shield=True):
                    await source.stop()
                tasks.cancel_scope.cancel()


@pytest.mark.spec("AU-11")
async def test_a_function_is_called_for_known_callers_and_gets_no_credentials(kit: Kit, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key = add_key(file, "billing")[1]
    text = {"content-type": "text/plain"}
    access: dict[str, Any] = {"authenticate": [{"api_key": {"file": file, "query": "key"}}]}
    async with calls(kit, **access) as (source, intake, function, client):
        refused = await client.post(source.address, content="order", headers={**text, "x-api-key": "tgk_no"})
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("ApiKey ")
        assert (await client.post(source.address, content="order", headers=text)).status_code == 401
        assert function.requests == []
        assert len(intake.refused) == 2
        for headers, query in (({"x-api-key": key}, "?a=b"), ({}, f"?key={key}&a=b")):
            other = {**text, **headers, "authorization": "Bearer s3cret", "x-other": "stays"}
            answered = await client.post(source.address + query, content="order", headers=other)
            assert answered.status_code < 300, answered.text
            called = function.requests[-1].body.decode()
            assert "stays" in called
            assert "a=b" in called
            for secret in (key, "s3cret", "X-Api-Key", "Authorization"):
                assert secret not in called
        assert [event.identity.subject for event in intake.events if event.identity] == ["key billing"] * 2
        assert sum(source.metrics()["tidegate_fn_denied_total"].values()) == 2


@pytest.mark.spec("AU-11")
async def test_what_a_function_returns_is_published_if_its_caller_may_send_it(kit: Kit, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key = {"x-api-key": add_key(file, "billing")[1], "content-type": "text/plain"}
    allow = [{"from": ["key billing"], "filters": [{"exact": {"type": "order"}}]}]
    access: dict[str, Any] = {"authenticate": [{"api_key": {"file": file}}], "allow": allow, "auth_context": True}
    async with calls(kit, **access) as (source, intake, _, client):
        assert (await client.post(source.address, content="payment", headers=key)).status_code == 403
        assert intake.events == []
        assert (await client.post(source.address, content="order", headers=key)).status_code < 300
        assert intake.events[0].attributes["authid"] == "key billing"


@pytest.mark.spec("AU-11")
async def test_a_function_is_not_called_for_who_may_send_nothing(kit: Kit, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    text = {"content-type": "text/plain"}
    stranger, key = ({**text, "x-api-key": add_key(file, name)[1]} for name in ("stranger", "billing"))
    filters = [{"exact": {"type": "order"}}]
    for allowed in ([{"from": ["key billing"], "filters": filters}], [{"from": ["key b*"]}, {"from": []}]):
        access: dict[str, Any] = {"authenticate": [{"api_key": {"file": file}}], "anonymous": True, "allow": allowed}
        async with calls(kit, **access) as (source, intake, function, client):
            for headers in (stranger, text):
                answered = await client.post(source.address, content="order", headers=headers)
                assert answered.status_code == 403
            assert function.requests == []
            assert len(intake.refused) == sum(source.metrics()["tidegate_fn_denied_total"].values()) == 2
            assert (await client.post(source.address, content="order", headers=key)).status_code < 300
            assert len(function.requests) == 1


@pytest.mark.spec("AU-11")
async def test_no_more_calls_than_allowed_begin_while_credentials_are_checked(
    kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, asked, all_asked = threading.Event(), [0], anyio.Event()

    def slow(received: Received) -> Any:
        release.wait(60)
        return answer(received)

    async def check(self: object, request: Message) -> Identity:
        asked[0] += 1
        if asked[0] == 4:
            all_asked.set()
        await all_asked.wait()
        return Identity("ann", "basic")

    (tmp_path / "users.json").write_text('{"users": {}}')
    monkeypatch.setattr(BasicAuthenticator, "authenticate", check)
    access: dict[str, Any] = {"authenticate": [{"basic": {"file": tmp_path / "users.json"}}], "max_in_flight": 1}
    async with calls(kit, slow, **access) as (source, _, function, client):
        statuses: list[int] = []

        async def call() -> None:
            answered = await client.post(source.address, content="order", headers={"content-type": "text/plain"})
            statuses.append(answered.status_code)

        try:
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    for _ in range(4):
                        tasks.start_soon(call)
                    while len(statuses) < 3 and len(function.requests) < 2:  # noqa: ASYNC110
                        await anyio.sleep(0.01)
                    release.set()
        finally:
            release.set()
        assert sorted(statuses) == [204, 503, 503, 503]
        assert len(function.requests) == 1


async def test_without_authentication_a_function_gets_all_headers(kit: Kit) -> None:
    async with calls(kit) as (source, intake, function, client):
        headers = {"content-type": "text/plain", "authorization": "Bearer s3cret"}
        assert (await client.post(source.address, content="order", headers=headers)).status_code < 300
        assert "s3cret" in function.requests[-1].body.decode()
        assert intake.events[0].identity is None
