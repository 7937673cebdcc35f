"""Sources and sinks of the tests, in the test's own loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
from gateway_testing.suites import Kit, MemoryIntake
from gateway_testing.suites.kit import PATIENCE_S
from gateway_websocket.sink import WebSocketSink
from gateway_websocket.source import WebSocketSource
from websockets.asyncio.client import ClientConnection, connect

from gateway_core.contract.event import Event
from tests.ledger import free_port as free_port
from tests.websocket.far import ACK

EVENT = '{"specversion":"1.0","id":"%s","source":"/s","type":"t","data":{"n":1}}'


@asynccontextmanager
async def source(kit: Kit, **options: Any) -> AsyncIterator[tuple[WebSocketSource, MemoryIntake]]:
    """A started source; it listens unless the options say otherwise."""
    if "url" not in options:
        options = {"listen": "127.0.0.1:0", "acknowledge": "optional", **options}
    made: Any = kit.source("websocket", options)
    intake = MemoryIntake()
    async with anyio.create_task_group() as tasks:
        await made.start(intake, tasks)
        yield made, intake
        intake.result = None
        intake.release()
        with anyio.fail_after(PATIENCE_S):
            await made.stop()
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def sink(kit: Kit, **options: Any) -> AsyncIterator[WebSocketSink]:
    """A started sink; it listens unless the options say otherwise."""
    if "url" not in options:
        options = {"listen": "127.0.0.1:0", **options}
    made: Any = kit.sink("websocket", options)
    async with anyio.create_task_group() as tasks:
        await made.start(tasks)
        yield made
        with anyio.fail_after(PATIENCE_S):
            await made.stop()
        tasks.cancel_scope.cancel()


def client(url: str, *subprotocols: str, **options: Any) -> connect:
    """A connection of the library's client, by default with acknowledgements."""
    names: Any = list(subprotocols or (ACK,))
    return connect(url, subprotocols=names, proxy=None, close_timeout=1, **options)


def ids(events: list[Event]) -> list[str]:
    return [str(event.attributes["id"]) for event in events]


async def handshake(url: str, *lines: str, method: str = "GET") -> tuple[str, dict[str, str], bytes]:
    """Sends a request by hand, with these header lines; the status line, the headers and what follows."""
    parts = urlsplit(url)
    stream = await anyio.connect_tcp(parts.hostname or "", parts.port or 0)
    async with stream:
        head = [f"{method} {parts.path} HTTP/1.1", f"Host: {parts.netloc}", *lines]
        await stream.send("\r\n".join([*head, "", ""]).encode())
        text = b""
        with anyio.move_on_after(PATIENCE_S):
            try:
                while b"\r\n\r\n" not in text or b" 101 " not in text:
                    text += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
    top, _, body = text.partition(b"\r\n\r\n")
    status, *rest = top.decode().split("\r\n")
    return status, {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}, body


UPGRADE = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="


def speaks(*names: str) -> str:
    return "Sec-WebSocket-Protocol: " + ", ".join(names)


async def closed(connection: ClientConnection) -> int:
    """Waits until the connection is closed; the code of the close frame that came, 1006 for none."""
    with anyio.fail_after(PATIENCE_S):
        await connection.wait_closed()
    assert connection.close_code is not None
    return connection.close_code
