"""The suites of `gateway_testing.suites`, on NATS. What is in a stream is looked up with nats-py alone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
import nats
import pytest
from gateway_dev import servers
from gateway_nats.binding import NATS
from gateway_testing.link import Link
from gateway_testing.suites import (
    ControllableRemote,
    Kit,
    MemoryIntake,
    PullingSourceSuite,
    RemoteChannelSuite,
    RemoteSinkSuite,
    SourceRemote,
    SourceSuite,
)
from gateway_testing.suites.kit import PATIENCE_S
from gateway_testing.vectors import Vector
from nats.js import JetStreamContext, api
from nats.js.errors import NotFoundError

from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Channel, Sink, Source
from tests.nats.conftest import NatsKit, ask, pause, resume

SETTLED_S = 0.5


def event_of(msg: Any) -> Event:
    """As the binding says (1.0.3-wip, section 3.1): binary mode."""
    headers = msg.headers or {}
    return Event({n[3:]: unquote(v) for n, v in headers.items() if n.startswith("ce-")}, msg.data)


class Stream:
    """The remote side of the sink: a stream."""

    def __init__(self, kit: NatsKit) -> None:
        self.name, self.server = kit.name, kit.server
        self._make()

    def _make(self, **limits: Any) -> None:
        async def make(js: JetStreamContext) -> None:
            config = api.StreamConfig(name=self.name, subjects=[f"{self.name}.>"], **limits)
            await js.update_stream(config) if limits or self._made else await js.add_stream(config)

        ask(self.server.url, make)
        self._made = True

    _made = False

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        return

    def events(self) -> list[Event]:
        async def read(js: JetStreamContext) -> list[Event]:
            last = (await js.stream_info(self.name)).state.last_seq
            return [event_of(await js.get_msg(self.name, n)) for n in range(1, last + 1)]

        return ask(self.server.url, read)


BINARY = {"codec": {"cloudevents": {"mode": "binary"}}}


def sink_options(kit: Kit) -> dict[str, Any]:
    assert isinstance(kit, NatsKit)
    return {"servers": kit.server.url, "subject": f"{kit.name}.events", **BINARY}


class MovingStream(Stream):
    """A stream that refuses, and a server that goes away."""

    def take(self) -> None:
        resume(self.server) if self._hangs else None
        self._hangs = False
        if self._away:
            self.server.start()
            self._away = False
        self._make(max_msg_size=-1, max_msgs=-1)

    _hangs = _away = False

    def refuse(self) -> None:
        self._make(max_msg_size=1)

    def fail(self) -> None:
        self._make(max_msgs=1, discard=api.DiscardPolicy.NEW)
        ask(self.server.url, lambda js: js.publish(f"{self.name}.full", b""))

    def hang(self) -> None:
        pause(self.server)
        self._hangs = True

    def leave(self) -> None:
        self.server.stop()
        self._away = True

    def __exit__(self, *error: object) -> None:
        if self._hangs:
            resume(self.server)

    def events(self) -> list[Event]:
        return [event for event in super().events() if event.attributes]


@pytest.mark.spec("NT-02")
class TestNatsSink(RemoteSinkSuite):
    @pytest.fixture
    def kit(self, tmp_path: Path, own_nats: servers.Server) -> Kit:
        return NatsKit(tmp_path, own_nats)

    def remote(self, kit: Kit) -> ControllableRemote:
        assert isinstance(kit, NatsKit)
        return MovingStream(kit)

    def build(self, kit: Kit, remote: Any) -> Sink:
        return kit.sink("nats", sink_options(kit))

    def with_codec(self, kit: Kit, remote: Any, codec: str) -> Sink:
        return kit.sink("nats", {**sink_options(kit), "codec": codec})


class Shared:
    """A kit with the server of the run."""

    @pytest.fixture
    def kit(self, tmp_path: Path, nats_server: servers.Server) -> Kit:
        return NatsKit(tmp_path, nats_server)


@pytest.mark.spec("NT-01")
class TestNatsSource(Shared, SourceSuite):
    pulls = True
    its: NatsKit
    js: JetStreamContext
    intake: MemoryIntake

    def build(self, kit: Kit) -> Source:
        assert isinstance(kit, NatsKit)
        self.its = kit
        stream = {"stream": kit.name, "create": {"subjects": f"{kit.name}.>", "storage": "memory"}}
        options = {"servers": kit.server.url, "subject": f"{kit.name}.in", "consumer": "its", "not_an_event": "drop"}
        return kit.source("nats", {**options, **stream})

    @asynccontextmanager
    async def running(self, kit: Kit) -> AsyncIterator[tuple[Source, MemoryIntake]]:
        async with super().running(kit) as (source, self.intake):
            nc = await nats.connect(self.its.server.url)
            self.js = nc.jetstream()
            yield source, self.intake
            await nc.close()

    async def send(self, source: Source, vector: Vector) -> bool:
        return await self._published(vector.binary(NATS))

    async def nonsense(self, source: Source) -> bool:
        return await self._published(Message([], b"{nonsense"))

    async def _published(self, message: Message) -> bool:
        """Whether the consumer's acknowledgements reach the message."""
        headers = {name.decode(): value.decode() for name, value in message.headers}
        sent = await self.js.publish(f"{self.its.name}.in", message.body or b"", headers=headers or None)
        start = time.monotonic()
        while True:
            info = await self.js.consumer_info(self.its.name, "its")
            assert info.ack_floor is not None
            if info.ack_floor.stream_seq >= sent.seq:
                return True
            waited = time.monotonic() - start
            asked = self.intake.result is not None and len(self.intake.events) > 0
            if waited > PATIENCE_S or (waited > SETTLED_S and (asked or not info.num_waiting)):
                return False  # it is meant to fail: the intake takes nothing, or the source has stopped
            await anyio.sleep(0.01)


class Inbox(SourceRemote):
    """A stream, and a connection to it that can be cut."""

    def __init__(self, kit: NatsKit) -> None:
        self.kit = kit
        self.link = Link("127.0.0.1", kit.server.port)

    async def open(self) -> None:
        self.link.__enter__()
        self.nc = await nats.connect(self.kit.server.url)
        self.js = self.nc.jetstream()
        await self.js.add_stream(name=self.kit.name, subjects=[f"{self.kit.name}.>"], storage="memory")

    async def close(self) -> None:
        await self.js.delete_stream(self.kit.name)
        await self.nc.close()
        self.link.__exit__(None, None, None)

    async def publish(self, vector: Vector) -> None:
        message = vector.binary(NATS)
        headers = {name.decode(): value.decode() for name, value in message.headers}
        await self.js.publish(f"{self.kit.name}.in", message.body or b"", headers=headers)

    async def nonsense(self) -> None:
        await self.js.publish(f"{self.kit.name}.in", b"{nonsense")

    async def leave(self) -> None:
        self.link.cut()

    async def take(self) -> None:
        self.link.restore()

    async def acknowledged(self) -> int | None:
        try:
            info = await self.js.consumer_info(self.kit.name, "its")
        except NotFoundError:
            return 0
        assert info.delivered is not None
        return int(info.delivered.stream_seq) - (info.num_ack_pending or 0)


@pytest.mark.spec("NT-01")
class TestNatsSourceThroughOutages(Shared, PullingSourceSuite):
    survives = True
    both_work = False  # the first that asks may get all that there are

    def remote(self, kit: Kit) -> Inbox:
        assert isinstance(kit, NatsKit)
        return Inbox(kit)

    def build(self, kit: Kit, remote: Inbox, **options: Any) -> Source:
        given = {"servers": f"nats://127.0.0.1:{remote.link.port}", "subject": f"{remote.kit.name}.in"}
        return kit.source("nats", {"consumer": "its", "start": "earliest", "ack_wait_s": 2, **given, **options})


class LinkedKit(NatsKit):
    """A kit with a server, and a connection to it that can be cut."""

    def __init__(self, folder: Path, server: servers.Server) -> None:
        super().__init__(folder, server)
        self.link = Link("127.0.0.1", server.port)


@pytest.mark.spec("NT-03")
class TestJetStreamChannel(RemoteChannelSuite):
    typed = counts = False

    @pytest.fixture
    def kit(self, tmp_path: Path, nats_server: servers.Server) -> Iterator[Kit]:
        kit = LinkedKit(tmp_path, nats_server)
        with kit.link:
            yield kit

    def build(self, kit: Kit) -> Channel:
        assert isinstance(kit, LinkedKit)
        server, name = f"nats://127.0.0.1:{kit.link.port}", f"{kit.name}-channel"
        return kit.channel("jetstream", {"servers": server, "stream": name, "subject": name, "ack_wait_s": 3})

    async def leave(self, kit: Kit) -> None:
        assert isinstance(kit, LinkedKit)
        kit.link.cut()

    async def take(self, kit: Kit) -> None:
        assert isinstance(kit, LinkedKit)
        kit.link.restore()
