"""The suites of `gateway_testing.suites`, on RabbitMQ's source and sink. aio-pika looks at the server from outside."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aio_pika
import anyio.to_thread
import pytest
from gateway_rabbitmq.source import RabbitSource
from gateway_testing.suites import (
    Kit,
    MemoryIntake,
    PullingSourceSuite,
    RemoteSinkSuite,
    SourceRemote,
    SourceSuite,
)
from gateway_testing.suites.kit import PATIENCE_S, until
from gateway_testing.suites.remote import Remote
from gateway_testing.vectors import Vector

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Sink, Source
from tests.rabbit_lab import Lab, Proxy, event_of, message_of, proxied
from tests.rabbitmq.conftest import name_of

pytestmark = [pytest.mark.spec("RQ-01"), pytest.mark.spec("RQ-02")]
SETTLED_S = 0.3


class RabbitKit(Kit):
    """A kit with a server behind a proxy."""

    def __init__(self, folder: Path, lab: Lab, proxy: Proxy) -> None:
        super().__init__(folder)
        self.lab = lab
        self.proxy = proxy
        self.name = name_of(folder)

    def options(self, **more: Any) -> dict[str, Any]:
        """The connection to the proxy, and more options."""
        return {"server": f"127.0.0.1:{self.proxy.port}", **more}


class Servers:
    """A kit with the server."""

    @pytest.fixture
    def kit(self, tmp_path: Path, lab: Lab) -> Iterator[RabbitKit]:
        with proxied(lab.server.port) as proxy:
            yield RabbitKit(tmp_path, lab, proxy)


class Exchange:
    """The remote side of the sink: an exchange with a queue."""

    def __init__(self, kit: RabbitKit) -> None:
        self._kit = kit
        self._name = kit.name
        self._events: list[Event] = []

    def __enter__(self) -> Exchange:
        lab, name = self._kit.lab, self._name
        lab.exchange(name)
        lab.queue(name, "classic")
        lab.queue(f"{name}-full", "classic", max_length=1, overflow="reject-publish")
        lab.publish(f"{name}-full", aio_pika.Message(b"it is full"))
        lab.bind(name, name, "k")
        return self

    def __exit__(self, *error: object) -> None:
        self._kit.proxy.flow()

    def events(self) -> list[Event]:
        self._events += [event_of(message) for message in self._kit.lab.take(self._name)]
        return self._events

    def take(self) -> None:
        self._kit.proxy.flow()

    def refuse(self) -> None:
        """No queue gets the messages, and the config says that this is final."""
        self._kit.lab.unbind(self._name, self._name, "k")

    def fail(self) -> None:
        """A queue is full, and says so."""
        self._kit.lab.bind(f"{self._name}-full", self._name, "k")

    def hang(self) -> None:
        self._kit.proxy.stall()

    def leave(self) -> None:
        self._kit.proxy.leave()


class TestRabbitSink(Servers, RemoteSinkSuite):
    def remote(self, kit: Kit) -> Exchange:
        assert isinstance(kit, RabbitKit)
        return Exchange(kit)

    def build(self, kit: Kit, remote: Remote) -> Sink:
        assert isinstance(kit, RabbitKit)
        more = {"exchange": kit.name, "routing_key": "k", "unroutable": "dead_letter"}
        return kit.sink("rabbitmq", kit.options(**more))

    def with_codec(self, kit: Kit, remote: Remote, codec: str) -> Sink:
        assert isinstance(kit, RabbitKit)
        return kit.sink("rabbitmq", kit.options(exchange=kit.name, routing_key="k", codec=codec))


class TestRabbitSource(Servers, SourceSuite):
    """A classic queue, whose server says at once what is acknowledged."""

    pulls = True
    its: RabbitKit
    intake: MemoryIntake
    source: RabbitSource

    def build(self, kit: Kit) -> Source:
        assert isinstance(kit, RabbitKit)
        self.its = kit
        more = {"queue": kit.name, "queue_type": "classic", "not_an_event": "drop"}
        return kit.source("rabbitmq", kit.options(**more))

    @asynccontextmanager
    async def running(self, kit: Kit) -> AsyncIterator[tuple[Source, MemoryIntake]]:
        async with super().running(kit) as (source, self.intake):
            assert isinstance(source, RabbitSource)
            self.source = source
            await until(lambda: source.info()["error"] is None, "the connection")
            yield source, self.intake

    async def send(self, source: Source, vector: Vector) -> bool:
        return await self._sent(message_of(vector.event))

    async def nonsense(self, source: Source) -> bool:
        return await self._sent(aio_pika.Message(b"{nonsense"))

    async def _sent(self, message: aio_pika.Message) -> bool:
        return await anyio.to_thread.run_sync(self._acknowledged, message)

    def _acknowledged(self, message: aio_pika.Message) -> bool:
        """Whether the queue no longer has the message."""
        self.its.lab.publish(self.its.name, message)
        start = time.monotonic()
        while self.its.lab.counts(self.its.name) != (0, 0):
            waited = time.monotonic() - start
            if waited > PATIENCE_S or (waited > SETTLED_S and self._fails()):
                return False
            time.sleep(0.01)
        return True

    def _fails(self) -> bool:
        """Whether it is meant to fail: the intake takes nothing (and was asked), or the source has stopped."""
        stopped = self.source.info()["error"] is not None
        return stopped or (self.intake.result is not None and len(self.intake.events) > 0)


class Queue(SourceRemote):
    """A classic queue, whose server says at once what is acknowledged, behind a proxy."""

    def __init__(self, kit: RabbitKit) -> None:
        self._kit = kit
        self._published = 0

    async def open(self) -> None:
        await anyio.to_thread.run_sync(self._kit.lab.queue, self._kit.name, "classic")

    async def close(self) -> None:
        await anyio.to_thread.run_sync(self._kit.lab.delete, self._kit.name)

    async def publish(self, vector: Vector) -> None:
        await self._send(message_of(vector.event))

    async def nonsense(self) -> None:
        await self._send(aio_pika.Message(b"{nonsense"))

    async def leave(self) -> None:
        await anyio.to_thread.run_sync(self._kit.proxy.leave)

    async def take(self) -> None:
        await anyio.to_thread.run_sync(self._kit.proxy.flow)

    async def acknowledged(self) -> int:
        counts = await anyio.to_thread.run_sync(self._kit.lab.counts, self._kit.name)
        return self._published - sum(counts)

    async def _send(self, message: aio_pika.Message) -> None:
        await anyio.to_thread.run_sync(self._kit.lab.publish, self._kit.name, message)
        self._published += 1


class TestRabbitPulling(Servers, PullingSourceSuite):
    """What is redelivered, from a classic queue."""

    def remote(self, kit: Kit) -> SourceRemote:
        assert isinstance(kit, RabbitKit)
        return Queue(kit)

    def build(self, kit: Kit, remote: Any, **options: Any) -> Source:
        assert isinstance(kit, RabbitKit)
        return kit.source("rabbitmq", kit.options(queue=kit.name, queue_type="classic", **options))
