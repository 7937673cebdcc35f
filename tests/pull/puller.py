"""Subscribers of the tests that fetch: with httpx, and a subscriber in a thread for the suite."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any

import anyio
import httpx
import msgspec
from gateway_cloudevents.event_json import load
from gateway_pull.sink import PullSink
from gateway_testing.suites import Kit
from gateway_testing.suites.kit import PATIENCE_S

from gateway_core.contract.event import Event
from tests import web
from tests.websocket.rig import free_port


@asynccontextmanager
async def sink(kit: Kit, **options: Any) -> AsyncIterator[tuple[PullSink, httpx.AsyncClient]]:
    """A started sink, and a client whose base URL is its address."""
    made: Any = kit.sink("pull", {"listen": "127.0.0.1:0", "path": "/orders", **options})
    async with anyio.create_task_group() as tasks:
        await made.start(tasks)
        async with web.async_client(base_url=made.address + "/", timeout=PATIENCE_S, verify=False) as client:
            yield made, client
        with anyio.fail_after(PATIENCE_S):
            await made.stop()
        tasks.cancel_scope.cancel()


async def fetch(client: httpx.AsyncClient, most: int = 100, wait_s: float = 20) -> list[dict[str, Any]]:
    response = await client.post("receive", json={"max": most, "wait_s": wait_s})
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["events"]
    return found


async def settle(client: httpx.AsyncClient, word: str, leases: list[str], **more: Any) -> dict[str, list[str]]:
    response = await client.post(word, json={"leases": leases, **more})
    assert response.status_code == 200, response.text
    found: dict[str, list[str]] = response.json()
    return found


class Puller:
    """A subscriber in a thread that fetches and acknowledges (`gateway_testing.suites.Remote`)."""

    def __init__(self) -> None:
        self.port = free_port()
        self._found: list[Event] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Puller:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._ends.set()
        self._thread.join()

    def events(self) -> list[Event]:
        return list(self._found)

    def _run(self) -> None:
        with web.client(base_url=f"http://127.0.0.1:{self.port}/orders/", verify=False, timeout=5) as client:
            while not self._ends.wait(0.005):
                with suppress(httpx.HTTPError):
                    response = client.post("receive", json={"max": 50, "wait_s": 0.1})
                    if response.status_code != 200:
                        continue
                    found = entries(response.content)
                    self._found += [load(event) for _, event in found]
                    if found:
                        client.post("ack", json={"leases": [lease for lease, _ in found]})


class Entry(msgspec.Struct):
    lease: str
    event: msgspec.Raw


class Found(msgspec.Struct):
    events: list[Entry]


def entries(body: bytes) -> list[tuple[str, bytes]]:
    """Leases, and the events' text as it came."""
    return [(entry.lease, bytes(entry.event)) for entry in msgspec.json.decode(body, type=Found).events]
