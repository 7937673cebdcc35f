"""Who may call a function, and what the function learns of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from gateway_auth.keys import add_key
from gateway_testing import Received, Subscriber
from gateway_testing.suites import Kit, MemoryIntake

pytestmark = pytest.mark.anyio


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


def answer(received: Received) -> Any:
    """What the function returns: an event with the type that the body names."""
    event = {"specversion": "1.0", "id": "1", "source": "/f", "type": json.loads(received.body)["data"]}
    return 200, {"content-type": "application/cloudevents+json"}, json.dumps(event).encode()


@asynccontextmanager
async def calls(kit: Kit, **options: Any) -> AsyncIterator[tuple[Any, MemoryIntake, Subscriber, httpx.AsyncClient]]:
    """A source with a function behind it."""
    with Subscriber(decide=answer) as function:
        called = {"http": {"url": function.url, "codec": "fn"}}
        source: Any = kit.source("fn", {"listen": "127.0.0.1:0", "function": called, "version": "1.0", **options})
        intake = MemoryIntake()
        client = httpx.AsyncClient(verify=False, timeout=60)
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
    access = {"authenticate": [{"api_key": {"file": file, "query": "key"}}]}
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
    access = {"authenticate": [{"api_key": {"file": file}}], "allow": allow, "auth_context": True}
    async with calls(kit, **access) as (source, intake, _, client):
        assert (await client.post(source.address, content="payment", headers=key)).status_code == 403
        assert intake.events == []
        assert (await client.post(source.address, content="order", headers=key)).status_code < 300
        assert intake.events[0].attributes["authid"] == "key billing"


async def test_without_authentication_a_function_gets_all_headers(kit: Kit) -> None:
    async with calls(kit) as (source, intake, function, client):
        headers = {"content-type": "text/plain", "authorization": "Bearer s3cret"}
        assert (await client.post(source.address, content="order", headers=headers)).status_code < 300
        assert "s3cret" in function.requests[-1].body.decode()
        assert intake.events[0].identity is None
