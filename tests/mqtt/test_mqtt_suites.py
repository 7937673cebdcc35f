"""The suites of `gateway_testing`, on the MQTT source and sink, against mosquitto and a scripted server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio.to_thread
import pytest
from gateway_dev.servers import Server
from gateway_mqtt.binding import MQTT
from gateway_testing.suites import (
    CodecSuite,
    Kit,
    MemoryIntake,
    PullingSourceSuite,
    Remote,
    RemoteSinkSuite,
    SinkSuite,
    SourceRemote,
    SourceSuite,
)
from gateway_testing.suites.kit import PATIENCE_S
from gateway_testing.vectors import Vector

from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec, Sink, Source
from tests.mqtt.publisher import Publisher, Subscriber
from tests.mqtt.scripted import ScriptedServer
from tests.mqtt.sources import unique
from tests.mqtt.tap import Tap


class TestMqttCodec(CodecSuite):
    binding = MQTT
    modes = ("binary", "structured")

    def build(self, kit: Kit) -> Codec:
        return kit.codec("cloudevents", {}, MQTT)


class TestMqttCodecWritesStructured(TestMqttCodec):
    def build(self, kit: Kit) -> Codec:
        return kit.codec("cloudevents", {"mode": "structured"}, MQTT)


class TestMqttSink(RemoteSinkSuite):
    """Against a server that also refuses, fails, hangs and is down."""

    @pytest.fixture
    def kit(self, real_time: None, tmp_path: Path) -> Kit:
        return Kit(tmp_path)

    def remote(self, kit: Kit) -> ScriptedServer:
        return ScriptedServer()

    def build(self, kit: Kit, remote: Remote) -> Sink:
        assert isinstance(remote, ScriptedServer)
        return kit.sink("mqtt", {"server": f"127.0.0.1:{remote.port}", "topic": "events"})

    def with_codec(self, kit: Kit, remote: Remote, codec: str) -> Sink:
        assert isinstance(remote, ScriptedServer)
        return kit.sink("mqtt", {"server": f"127.0.0.1:{remote.port}", "topic": "events", "codec": codec})


class _Topic:
    def __init__(self, port: int, name: str) -> None:
        self.name = name
        self._subscriber = Subscriber(port, name)
        self._publisher = Publisher(port)

    def __enter__(self) -> _Topic:
        self._subscriber.__enter__()
        self._publisher.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._subscriber.__exit__()
        self._publisher.__exit__()

    def events(self) -> list[Event]:
        """Those before a message that is published now: the server acknowledges before it has passed a message on."""
        mark = uuid4().bytes
        self._publisher.publish(self.name, Message([], mark), 2)
        end = time.monotonic() + PATIENCE_S
        while (found := self._subscriber.messages[-1:]) == [] or found[0].payload != mark:
            assert time.monotonic() < end, "the messages did not arrive"
            time.sleep(0.002)
        self._subscriber.messages.pop()
        return self._subscriber.events()


class TestMqttSinkAtMosquitto(SinkSuite):
    qos = 1

    @pytest.fixture
    def kit(self, tmp_path: Path, mqtt_server: Server) -> Kit:
        self._port = mqtt_server.port
        return Kit(tmp_path)

    def remote(self, kit: Kit) -> Remote:
        return _Topic(self._port, f"suite/{unique(kit.folder)}")

    def build(self, kit: Kit, remote: Remote) -> Sink:
        assert isinstance(remote, _Topic)
        options = {"server": f"127.0.0.1:{self._port}", "topic": remote.name, "qos": self.qos}
        return kit.sink("mqtt", options)


@pytest.mark.spec("MQ-08")
class TestMqttSinkOfQos2(TestMqttSinkAtMosquitto):
    qos = 2


class TestMqttSource(SourceSuite):
    """A tap on the connection shows what the source acknowledges."""

    pulls = True
    qos = 1
    intake: MemoryIntake

    @pytest.fixture
    def kit(self, tmp_path: Path, mqtt_server: Server) -> Iterator[Kit]:
        kit = Kit(tmp_path)
        self._sent = 0
        self._topic = f"suite/{unique(tmp_path)}"
        with Tap(mqtt_server.port) as self._tap, Publisher(mqtt_server.port) as self._publisher:
            yield kit

    def options(self) -> dict[str, Any]:
        return {
            "server": f"127.0.0.1:{self._tap.port}",
            "topic": f"{self._topic}/#",
            "client_id": self._topic.replace("/", "-"),
            "qos": self.qos,
            "not_an_event": "drop",
        }

    def build(self, kit: Kit) -> Source:
        return kit.source("mqtt", self.options())

    @asynccontextmanager
    async def running(self, kit: Kit) -> AsyncIterator[tuple[Source, MemoryIntake]]:
        async with super().running(kit) as (source, self.intake):
            yield source, self.intake

    async def send(self, source: Source, vector: Vector) -> bool:
        return await self._published(vector.binary(MQTT))

    async def nonsense(self, source: Source) -> bool:
        return await self._published(Message([(b"content-type", b"application/cloudevents+json")], b"{nonsense"))

    async def _published(self, message: Message) -> bool:
        self._sent += 1
        wanted = self._sent
        await anyio.to_thread.run_sync(self._publisher.publish, self._topic, message, 2)
        started = time.monotonic()
        while len(self._tap.settled) < wanted:
            waited = time.monotonic() - started
            if waited > PATIENCE_S or (waited > 0.4 and self._fails()):
                return False
            await anyio.sleep(0.005)
        return True

    def _fails(self) -> bool:
        """Whether it is meant to fail: the intake takes nothing (and was asked), or the source has stopped."""
        asked = self.intake.result is not None and len(self.intake.events) > 0
        return asked or not self._tap.connected


@pytest.mark.spec("MQ-08")
class TestMqttSourceOfQos2(TestMqttSource):
    qos = 2


class _Broker(SourceRemote):
    """The shared mosquitto, by a tap that counts acknowledgements and can be cut."""

    def __init__(self, port: int, topic: str) -> None:
        self.topic = topic
        self.tap = Tap(port)
        self._publisher = Publisher(port)

    async def open(self) -> None:
        await anyio.to_thread.run_sync(self._publisher.__enter__)

    async def close(self) -> None:
        for one in (self._publisher, self.tap):
            await anyio.to_thread.run_sync(one.__exit__, None, None, None)

    async def publish(self, vector: Vector) -> None:
        await self._publish(vector.binary(MQTT))

    async def nonsense(self) -> None:
        await self._publish(Message([(b"content-type", b"application/cloudevents+json")], b"{nonsense"))

    async def _publish(self, message: Message) -> None:
        await anyio.to_thread.run_sync(self._publisher.publish, self.topic, message)

    async def leave(self) -> None:
        await anyio.to_thread.run_sync(self.tap.leave)

    async def take(self) -> None:
        self.tap.take()

    async def acknowledged(self) -> int:
        return len(self.tap.settled)


@pytest.mark.spec("MQ-05", "MQ-11", "MQ-12")
class TestMqttSourceFetches(PullingSourceSuite):
    @pytest.fixture
    def kit(self, tmp_path: Path, mqtt_server: Server) -> Kit:
        self._port = mqtt_server.port
        return Kit(tmp_path)

    def remote(self, kit: Kit) -> SourceRemote:
        return _Broker(self._port, f"pulling/{uuid4()}")

    def build(self, kit: Kit, remote: Any, **options: Any) -> Source:
        client_id = remote.topic.replace("/", "-")
        fixed = {"server": f"127.0.0.1:{remote.tap.port}", "topic": remote.topic, "client_id": client_id}
        return kit.source("mqtt", {**fixed, **options})


@pytest.mark.spec("MQ-09")
class TestMqttSourceFetchesItsShare(TestMqttSourceFetches):
    more: dict[str, Any] = {}

    def build(self, kit: Kit, remote: Any, **options: Any) -> Source:
        return super().build(kit, remote, group="suite", **self.more, **options)

    async def test_it_works_in_every_worker_or_in_one(self, kit: Kit) -> None:
        self.more = {"session_expiry_s": 0}  # mosquitto keeps a share for each session, also of a worker that is down
        await super().test_it_works_in_every_worker_or_in_one(kit)
