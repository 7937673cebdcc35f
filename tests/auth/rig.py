"""Ingresses with authenticators, in the test's own loop, and requests to them."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
from gateway_testing.suites import Kit, MemoryIntake

from gateway_core.contract.event import Event
from tests import web

EVENT = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}'
STRUCTURED = ("content-type", "application/cloudevents+json")
Headers = Sequence[tuple[str, str]]


class Ingress:
    """A started HTTP source, and what it took."""

    def __init__(self, source: Any, intake: MemoryIntake, client: httpx.AsyncClient) -> None:
        self.source = source
        self.intake = intake
        self._client = client

    async def post(self, *headers: tuple[str, str], query: str = "") -> httpx.Response:
        url = self.source.address + (f"?{query}" if query else "")
        sent = [(name.encode(), value.encode()) for name, value in (STRUCTURED, *headers)]
        return await self._client.post(url, content=EVENT, headers=sent)

    async def status(self, *headers: tuple[str, str], query: str = "") -> int:
        return (await self.post(*headers, query=query)).status_code

    async def until(self, status: int, *headers: tuple[str, str]) -> None:
        """Waits until such a request has this status."""
        with anyio.fail_after(30):
            while await self.status(*headers) != status:  # noqa: ASYNC110 - a file is read again some time
                await anyio.sleep(0.02)

    @property
    def last(self) -> Event:
        return self.intake.events[-1]


@asynccontextmanager
async def ingress(kit: Kit, *authenticate: dict[str, Any], **options: Any) -> AsyncIterator[Ingress]:
    """An ingress with these authenticators."""
    source: Any = kit.source("http", {"listen": "127.0.0.1:0", "authenticate": list(authenticate), **options})
    intake = MemoryIntake()
    limits = httpx.Limits(max_connections=200)
    client = web.async_client(verify=False, limits=limits, timeout=60)
    async with anyio.create_task_group() as tasks, client:
        await source.start(intake, tasks)
        try:
            yield Ingress(source, intake, client)
        finally:
            with anyio.fail_after(30, shield=True):
                await source.stop()
            tasks.cancel_scope.cancel()


def basic(name: str, password: str) -> tuple[str, str]:
    """The header field of these credentials."""
    return "authorization", "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
