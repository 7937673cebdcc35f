"""The suites of `gateway_testing.suites`, on source and sink, with the library's own clients and servers at the other
end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import anyio
import anyio.to_thread
import pytest
from gateway_testing.suites import ControllableRemote, Kit, RemoteSinkSuite, SinkSuite, SourceSuite
from gateway_testing.suites.kit import PATIENCE_S, until
from gateway_testing.suites.remote import Remote
from gateway_testing.suites.sink import EVENTS, Attempts, attempt, numbered, running
from gateway_testing.vectors import Vector, same_data, texts
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from gateway_core.contract.interfaces import Sink, Source
from tests.websocket.far import ACK, PLAIN, Far, FarClient, Feed

ANSWER_S = 1.0
"""How long the sender waits for an answer in the tests where none may come. The intake is tried again after 1 s."""

pytestmark = pytest.mark.usefixtures("real_time")


@pytest.mark.spec("WS-01", "WS-02", "WS-05")
class TestListeningSource(SourceSuite):
    """A source that listens, with a sender that gets acknowledgements."""

    def build(self, kit: Kit) -> Source:
        return kit.source("websocket", {"listen": "127.0.0.1:0", "path": "/in", "acknowledge": "required"})

    async def send(self, source: Source, vector: Vector) -> bool:
        return await self._send(source, vector.document)

    async def nonsense(self, source: Source) -> bool:
        return await self._send(source, "{nonsense")

    async def _send(self, source: Source, text: str) -> bool:
        protocols: Any = [ACK]
        try:
            async with connect(source.address, subprotocols=protocols, proxy=None) as connection:
                await connection.send(text)
                async with asyncio.timeout(ANSWER_S if self._quick(source) else 30):
                    answer = json.loads(await connection.recv())
        except (TimeoutError, ConnectionClosed):
            return False
        except InvalidHandshake as e:
            raise OSError(str(e)) from e
        assert answer.get("ack", answer.get("nack")) == 1
        return "ack" in answer

    def _quick(self, source: Any) -> bool:
        return source._intake.result is not None


class Sinks:
    def build(self, kit: Kit, remote: Remote) -> Sink:
        assert isinstance(remote, Far)
        return kit.sink("websocket", {"url": remote.url})


@pytest.mark.spec("WS-03", "WS-05")
class TestConnectingSink(Sinks, RemoteSinkSuite):
    """A sink that connects to a server with acknowledgements."""

    def remote(self, kit: Kit) -> ControllableRemote:
        return Far(ACK)


@pytest.mark.spec("WS-03", "WS-06")
class TestPlainSink(Sinks, SinkSuite):
    """A sink that connects to a server that knows only the specified subprotocol."""

    def remote(self, kit: Kit) -> Remote:
        return Far(PLAIN)

    async def test_what_is_delivered_is_there_as_it_was(self, kit: Kit) -> None:
        """An event counts as delivered before it has arrived, so that it arrives is seen a little later."""
        with Far(PLAIN) as remote:
            async with running(self.build(kit, remote)) as sink:
                for event in EVENTS:
                    assert (await attempt(sink, event)).delivered
                await until(lambda: len(remote.events()) == len(EVENTS), "the events to arrive")
            for event, found in zip(EVENTS, remote.events(), strict=True):
                assert texts(found) == texts(event)
                assert same_data(event.data, found.data)

    async def test_attempts_at_once_are_each_answered_once(self, kit: Kit) -> None:
        with Far(PLAIN) as remote:
            async with running(self.build(kit, remote)) as sink:
                attempts = Attempts()
                for event in numbered(100):
                    attempts.send(sink, event)
                assert all(o.delivered for o in await attempts.ended())
                await until(lambda: len(remote.events()) == 100, "the events to arrive")


@pytest.mark.spec("WS-05", "WS-11")
class TestListeningSink(RemoteSinkSuite):
    """A sink that a subscriber connects to."""

    def remote(self, kit: Kit) -> ControllableRemote:
        return FarClient(ACK)

    def build(self, kit: Kit, remote: Remote) -> Sink:
        assert isinstance(remote, FarClient)
        return kit.sink("websocket", {"listen": f"127.0.0.1:{remote.port}", "path": "/events"})

    async def test_it_starts_while_the_remote_side_is_away_and_delivers_when_it_is_back(self, kit: Kit) -> None:
        """As the suite has it, but an attempt waits for a subscriber as long as it may, and here that is short."""
        with FarClient(ACK) as remote:
            await anyio.to_thread.run_sync(remote.leave)
            async with running(self.build(kit, remote)) as sink:
                outcome = await attempt(sink, numbered(1)[0], 0.2)
                assert (outcome.delivered, outcome.retry) == (False, True)
                assert "no subscriber" in outcome.reason
                remote.take()
                assert (await attempt(sink, numbered(1, 1)[0])).delivered
                assert [e.attributes["id"] for e in remote.events()] == ["n1"]


@pytest.mark.spec("WS-01", "WS-03", "WS-05")
class TestConnectingSource(SourceSuite):
    """A source that connects to a server, which sends the events."""

    @pytest.fixture(autouse=True)
    def server(self) -> Iterator[None]:
        self.feed = Feed(ACK)
        with self.feed:
            yield

    def build(self, kit: Kit) -> Source:
        return kit.source("websocket", {"url": self.feed.url, "acknowledge": "required"})

    async def send(self, source: Source, vector: Vector) -> bool:
        return await self._send(source, vector.document)

    async def nonsense(self, source: Source) -> bool:
        return await self._send(source, "{nonsense")

    async def _send(self, source: Any, text: str) -> bool:
        limit_s = PATIENCE_S if source._intake.result is None else ANSWER_S
        with anyio.move_on_after(PATIENCE_S):
            while not source._stopping:
                with suppress(OSError):
                    return await self.feed.send(text, limit_s)
                await anyio.sleep(0.01)
        raise OSError("the source is not connected")
