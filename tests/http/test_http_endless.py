"""Answers without an end: each attempt is over in time, and takes a few megabytes at the most."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome

pytestmark = [pytest.mark.anyio, pytest.mark.spec("SAFE-36")]

EVENT = Event({"specversion": "1.0", "id": "1", "type": "t"}, b"{}")
MOST = 12 * 1024 * 1024  # 4 MiB are read, the rest is what sockets hold
LONG_S = 120.0  # far beyond any limit of an attempt, also on a busy machine
MILLION = b"x" * 1_000_000


class Endless:
    """A server that answers with `head`, then `part` again and again; it counts what it got rid of."""

    def __init__(self, head: bytes, part: bytes, pause_s: float = 0.0) -> None:
        self.head, self.part, self.pause_s = head, part, pause_s
        self.sent = 0
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self.head)
            while True:
                writer.write(self.part)
                await writer.drain()
                self.sent += len(self.part)
                await asyncio.sleep(self.pause_s)
        except (OSError, asyncio.IncompleteReadError, RuntimeError):  # uvloop raises the last
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


CHUNKED = b"HTTP/1.1 %s\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"%x\r\n%s\r\n" % (len(MILLION), MILLION)
LONG = b"Content-Length: 999999999999\r\n\r\n"
REPLY = b"HTTP/1.1 200 OK\r\nce-id: 1\r\nce-specversion: 1.0\r\nce-type: t\r\nContent-Type: text/plain\r\n"
BODIES = {
    "length": (b"HTTP/1.1 202 Accepted\r\n" + LONG, MILLION, True, 202),
    "chunked": (CHUNKED % b"200 OK", CHUNK, True, 200),
    "until the end": (b"HTTP/1.1 202 OK\r\n\r\n", MILLION, True, 202),
    "refused": (CHUNKED % b"400 Bad", CHUNK, False, 400),
    "failed": (b"HTTP/1.1 500 Oops\r\n" + LONG, MILLION, False, 500),
}


@pytest.mark.parametrize(("head", "part", "delivered", "code"), BODIES.values(), ids=BODIES.keys())
async def test_an_endless_body_is_cut_and_the_status_counts(
    kit: Any, client: str, head: bytes, part: bytes, delivered: bool, code: int
) -> None:
    server = Endless(head, part)
    async with serving(server.serve) as url, kit.sink(url, client=client) as sink:
        for _ in range(2):
            outcome: Outcome = await kit.send(sink, EVENT, 20.0)
            assert (outcome.delivered, outcome.code) == (delivered, code)
    assert server.connections == 2, "each was cut"
    assert server.sent < 2 * MOST


@pytest.mark.parametrize("framing", [LONG, b"Transfer-Encoding: chunked\r\n\r\n"], ids=["length", "chunked"])
async def test_an_endless_reply_is_no_reply(kit: Any, client: str, framing: bytes) -> None:
    server = Endless(REPLY + framing, CHUNK if b"chunked" in framing else MILLION)
    async with serving(server.serve) as url, kit.sink(url, True, client=client) as sink:
        outcome: Outcome = await kit.send(sink, EVENT, 20.0)
    assert (outcome.delivered, outcome.retry, outcome.code, outcome.reply) == (False, True, 200, None)
    assert "longer than" in outcome.reason
    assert server.sent < MOST


NEVER = {
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "early hints": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 1000),
}


@pytest.mark.slow
@pytest.mark.parametrize(("head", "part"), NEVER.values(), ids=NEVER.keys())
async def test_interim_answers_for_ever_are_no_answer(kit: Any, client: str, head: bytes, part: bytes) -> None:
    server = Endless(head, part)
    async with serving(server.serve) as url, kit.sink(url, client=client) as sink:
        with anyio.fail_after(LONG_S):
            outcome: Outcome = await kit.send(sink, EVENT, 1.0)
    assert (outcome.delivered, outcome.retry, outcome.code) == (False, True, None)


HIDDEN = {
    "chunk extensions": (CHUNKED % b"202 OK", b"1;a=" + b"b" * 50_000 + b"\r\nx\r\n"),
    "trailers": (CHUNKED % b"202 OK" + b"0\r\n", b"a: " + b"b" * 1000 + b"\r\n"),
}


@pytest.mark.parametrize(("head", "part"), HIDDEN.values(), ids=HIDDEN.keys())
async def test_what_is_hidden_beside_the_body_counts_too(kit: Any, head: bytes, part: bytes) -> None:
    server = Endless(head, part)
    async with serving(server.serve) as url, kit.sink(url) as sink:
        outcome: Outcome = await kit.send(sink, EVENT, 20.0)
    assert outcome.delivered or outcome.retry
    assert server.sent < MOST


TRICKLES = {
    "head": (b"HTTP/1.1 202 OK\r\na: ", b"b"),
    "body": (b"HTTP/1.1 202 OK\r\n" + LONG, b"b"),
    "chunks": (CHUNKED % b"202 OK", b"1\r\nx\r\n"),
    "interim": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("head", "part"), TRICKLES.values(), ids=TRICKLES.keys())
async def test_bytes_one_by_one_do_not_make_an_attempt_longer(kit: Any, client: str, head: bytes, part: bytes) -> None:
    server = Endless(head, part, 0.05)
    async with serving(server.serve) as url, kit.sink(url, client=client) as sink:
        with anyio.fail_after(LONG_S):
            outcome: Outcome = await kit.send(sink, EVENT, 0.25)
    assert (outcome.delivered, outcome.retry) == (False, True)
    assert "0.25 s" in outcome.reason


@pytest.mark.slow
async def test_an_answer_before_the_request_was_read_leaves_nothing_for_the_next(kit: Any) -> None:
    """What is left of the first request must not reach the server as the beginning of another."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 202 OK\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.1)  # nothing is read meanwhile
            while not reader.at_eof():
                await reader.read(1 << 16)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async with serving(serve) as url, kit.sink(url) as sink:
        for _ in range(2):
            large = Event({"specversion": "1.0", "id": "1", "type": "t"}, b"y" * 30_000_000)
            assert (await kit.send(sink, large, 10.0)).delivered
    assert [r[:6] for r in requests] == [b"POST /", b"POST /"], "each on a connection of its own"


async def test_tls_that_breaks_in_the_middle_is_no_answer(kit: Any, client: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"\x16\x03\x03\x00\x05hello" + b"\xff" * 100)
        writer.close()

    async with serving(serve) as url, kit.sink(url.replace("http:", "https:"), client=client) as sink:
        outcome: Outcome = await kit.send(sink, EVENT, 5.0)
    assert (outcome.delivered, outcome.retry, outcome.code, outcome.local) == (False, True, None, False)
    assert outcome.reason


async def test_a_server_that_answers_and_shuts_one_side_is_left(kit: Any) -> None:
    """`Connection: close` ends the connection also where the server forgets to close it."""
    connections = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        while await reader.read(1 << 16):
            writer.write(b"HTTP/1.1 202 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with serving(serve) as url, kit.sink(url) as sink:
        for _ in range(3):
            assert (await kit.send(sink, EVENT, 5.0)).delivered
    assert len(connections) == 3


@pytest.mark.parametrize("pause_s", [0.0, 0.01])
async def test_an_endless_answer_to_the_probe_holds_no_event(kit: Any, client: str, pause_s: float) -> None:
    probed = Endless(b"HTTP/1.1 200 OK\r\n" + LONG, MILLION if not pause_s else b"x", pause_s)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (await reader.readexactly(4)) == b"OPTI":
            await probed.serve(reader, writer)
            return
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async with serving(serve) as url, kit.sink(url, client=client, probe=True, connect_timeout_s=0.3) as sink:
        outcome: Outcome = await kit.send(sink, EVENT, 20.0)
        assert (outcome.delivered, outcome.code) == (True, 202)
    assert probed.sent < MOST
