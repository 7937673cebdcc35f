"""A subscriber that is down, at real sockets: few connections, and everything arrives after its return."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

import anyio
import pytest
from gateway_testing import MemoryFeed, ScriptedSink, Subscriber

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.event import Event
from gateway_core.delivery import Subscription

pytestmark = [pytest.mark.anyio, pytest.mark.spec("SAFE-37")]


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


def event(n: int) -> Event:
    return Event({"specversion": "1.0", "id": str(n), "type": "t", "source": "/s"}, b"{}", position=n)


@pytest.mark.slow
async def test_a_closed_port_is_asked_now_and_then_and_all_arrive_after_it_opens(kit: Any, client: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    letters, feed = ScriptedSink(), MemoryFeed()
    async with kit.sink(f"http://127.0.0.1:{port}/", client=client) as sink:
        policy = DeliveryConfig(timeout_s=300, backoff_max_s=0.4)  # no second request on a busy machine
        subscription = Subscription("t", sink, policy, SystemClock(), dead_letter=letters)
        subscription.feed = feed
        for n in range(1, 501):
            subscription.offer(event(n))
        await kit.until(lambda: subscription.failures.many)
        await anyio.sleep(1)
        assert subscription.attempts < 150
        assert (feed.acked, letters.sent) == ([], [])
        with Subscriber(port=port) as subscriber:
            await kit.until(lambda: len(feed.acked) == 500)
            assert len(subscriber.requests) == 500
        assert not subscription.failures.many
        assert letters.sent == []


@pytest.mark.usefixtures("real_time")
async def test_a_silent_subscriber_gets_few_requests_and_all_events_are_given_up_together(
    kit: Any, client: str
) -> None:
    connections = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await reader.read(1 << 16):
            pass
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    letters, feed = ScriptedSink(), MemoryFeed()
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with kit.sink(url, client=client) as sink:
        policy = DeliveryConfig(timeout_s=0.3, retry=2, backoff_delay_s=0.05, max_in_flight=16)
        subscription = Subscription("t", sink, policy, SystemClock(), dead_letter=letters)
        subscription.feed = feed
        for n in range(1, 501):
            subscription.offer(event(n))
        await kit.until(lambda: len(feed.acked) == 500)
    server.close()
    assert {letter.attributes["tidegateattempts"] for letter in letters.sent} == {3}
    assert connections <= subscription.attempts < 60


@pytest.mark.spec("HOLD-07")
@pytest.mark.parametrize("client", ["native", "httpx"])
async def test_an_outcome_says_whether_the_request_reached_the_subscriber(kit: Any, client: str) -> None:
    takes = 1

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers `takes` requests of a connection, and ends it at the next one."""
        for _ in range(takes):
            await reader.readuntil(b"{}")
            writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
        with suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with kit.sink(f"http://127.0.0.1:{port}/", client=client) as sink:
        assert (await kit.send(sink)).delivered
        kept = await kit.send(sink)
        assert (kept.retry, kept.code) == (True, None)
        if client == "native":
            assert not kept.reached, "a kept connection may have been dead before"
        takes = 0
        assert (await kit.send(sink)).reached
        server.close()
        await server.wait_closed()
        refused = await kit.send(sink)
        assert (refused.retry, refused.code, refused.reached) == (True, None, False)


@pytest.mark.spec("HOLD-07")
async def test_silence_on_a_new_connection_reached_the_subscriber(kit: Any) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server, kit.sink(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/") as sink:
        assert (await kit.send(sink, timeout_s=0.1)).reached
    with socket.socket() as full:  # its backlog is full: the system accepts no connection
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        others = [socket.socket() for _ in range(4)]
        for other in others:
            other.setblocking(False)
            other.connect_ex(("127.0.0.1", port))
        async with kit.sink(f"http://127.0.0.1:{port}/") as sink:
            late = await kit.send(sink, timeout_s=0.1)
        assert (late.code, late.reached) == (None, False)
        for other in others:
            other.close()
