"""One answer for one request: what a server sends beyond it never answers another, on either client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome

pytestmark = [pytest.mark.anyio, pytest.mark.spec("SAFE-42")]

OK = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
NO_BODY = b"HTTP/1.1 204 No Content\r\n\r\n"
BAD = b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n"


@asynccontextmanager
async def serving(first: list[bytes], pause_s: float = 0.0) -> AsyncIterator[tuple[str, list[int]]]:
    """The first answer on the first connection consists of these parts; all others are 202."""
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        number = len(connections)
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(2)
                connections[number - 1] += 1
                if number == 1 and connections[0] == 1:
                    for part in first:
                        writer.write(part)
                        await writer.drain()
                        await asyncio.sleep(pause_s)
                else:
                    writer.write(OK)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", connections
    finally:
        server.close()


@pytest.mark.parametrize("first", [OK, CHUNKED, NO_BODY], ids=["length", "chunked", "none"])
@pytest.mark.parametrize("extra", [BAD, OK, b"garbage", b"HTTP/1.1 2"], ids=["answer", "same", "garbage", "beginning"])
@pytest.mark.parametrize("parts", [1, 2])
async def test_what_follows_an_answer_is_not_believed(
    kit: Any, client: str, first: bytes, extra: bytes, parts: int
) -> None:
    sent = [first + extra] if parts == 1 else [first, extra]
    async with serving(sent, 0.02) as (url, connections), kit.sink(url, client=client) as sink:
        for _ in range(2):
            outcome: Outcome = await kit.send(sink, Event({"id": "1"}, b"{}"), 5.0)
            assert outcome.delivered, outcome
            await asyncio.sleep(0.05)
    assert connections[0] == 1, "the connection is left"


@pytest.mark.parametrize("first", [OK, CHUNKED, NO_BODY], ids=["length", "chunked", "none"])
async def test_a_connection_with_nothing_left_is_used_again(kit: Any, client: str, first: bytes) -> None:
    async with serving([first]) as (url, connections), kit.sink(url, client=client) as sink:
        for _ in range(4):
            assert (await kit.send(sink, Event({"id": "1"}, b"{}"), 5.0)).delivered
    assert connections == [4]
