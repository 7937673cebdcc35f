"""The suites of `gateway_testing.suites`, on the sink and the source of Redis."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
import redis
from gateway_dev import servers
from gateway_redis.binding import REDIS, fields_of
from gateway_testing.suites import Kit, MemoryIntake, Remote, RemoteSinkSuite, SourceSuite
from gateway_testing.suites.kit import PATIENCE_S
from gateway_testing.vectors import Vector

from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Sink, Source
from tests.redis.conftest import RedisKit, plain

SETTLED_S = 0.3


def event_of(fields: dict[bytes, bytes]) -> Event:
    """As docs/howto/redis.md says: binary mode."""
    attributes = {}
    for name, value in fields.items():
        if name == b"content-type":
            attributes["datacontenttype"] = value.decode()
        elif name.startswith(b"ce_"):
            attributes[name[3:].decode()] = value.decode()
    return Event(attributes, fields.get(b"data"), key=fields.get(b"key"))


class Stream:
    """The remote side of the sink: a server of its own that can fail."""

    def __init__(self, folder: Path) -> None:
        self.server = servers.redis(folder / "remote")
        self._paused = False

    def __enter__(self) -> Stream:
        self.server.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.kill()

    def events(self) -> list[Event]:
        with plain(self.server) as client:
            return [event_of(fields) for _, fields in client.xrange("events")]

    def take(self) -> None:
        self.server.start()
        with plain(self.server) as client:
            if self._paused:
                client.client_unpause()
                self._paused = False
            client.config_set("maxmemory", 0)
            if client.type("events") == b"string":
                client.delete("events")

    def refuse(self) -> None:
        with plain(self.server) as client:
            client.set("events", "no stream")

    def fail(self) -> None:
        with plain(self.server) as client:
            client.config_set("maxmemory", 1)

    def hang(self) -> None:
        with plain(self.server) as client:
            client.client_pause(600_000, all=False)
        self._paused = True

    def leave(self) -> None:
        self.server.kill()


@pytest.mark.spec("RD-02")
class TestRedisSink(RemoteSinkSuite):
    @pytest.fixture
    def kit(self, processes: None, tmp_path: Path) -> Kit:
        return Kit(tmp_path)

    def remote(self, kit: Kit) -> Stream:
        return Stream(kit.folder)

    def build(self, kit: Kit, remote: Remote) -> Sink:
        assert isinstance(remote, Stream)
        return kit.sink("redis", {"servers": f"127.0.0.1:{remote.server.port}", "stream": "events"})

    def with_codec(self, kit: Kit, remote: Remote, codec: str) -> Sink:
        assert isinstance(remote, Stream)
        return kit.sink("redis", {"servers": f"127.0.0.1:{remote.server.port}", "stream": "events", "codec": codec})


@pytest.mark.spec("RD-01")
class TestRedisSource(SourceSuite):
    pulls = True
    its: RedisKit
    intake: MemoryIntake
    stopped = False

    @pytest.fixture
    def kit(self, tmp_path: Path, redis_server: servers.Server) -> Iterator[RedisKit]:
        kit = RedisKit(tmp_path, redis_server)
        yield kit
        kit.redis.close()

    def build(self, kit: Kit) -> Source:
        assert isinstance(kit, RedisKit)
        self.its = kit
        options = {"group": "suite", "start": "0", "not_an_event": "drop", "claim_idle_s": 0.3}
        return kit.source("redis", {"url": f"{kit.server.url}/{kit.stream}", **options})

    @asynccontextmanager
    async def running(self, kit: Kit) -> AsyncIterator[tuple[Source, MemoryIntake]]:
        async with super().running(kit) as (source, self.intake):
            self.source = source
            yield source, self.intake

    async def send(self, source: Source, vector: Vector) -> bool:
        return await self._added(vector.binary(REDIS))

    async def nonsense(self, source: Source) -> bool:
        return await self._added(Message([], b"{nonsense"))

    async def _added(self, message: Message) -> bool:
        return await anyio.to_thread.run_sync(self._acknowledged, message)

    def _acknowledged(self, message: Message) -> bool:
        """Whether the entry is acknowledged."""
        its = self.its
        id = its.add(fields_of(message))
        start = time.monotonic()
        while True:
            if self._is_acknowledged(id):
                return True
            waited = time.monotonic() - start
            if waited > PATIENCE_S or (waited > SETTLED_S and self._fails()):
                return False
            time.sleep(0.01)

    def _is_acknowledged(self, id: bytes) -> bool:
        client = redis.Redis(connection_pool=self.its.redis.connection_pool)
        (group,) = client.xinfo_groups(self.its.stream)
        delivered = tuple(map(int, group["last-delivered-id"].split(b"-"))) >= tuple(map(int, id.split(b"-")))
        return delivered and not client.xpending_range(self.its.stream, "suite", id, id, 1)

    def _fails(self) -> bool:
        """Whether it is meant to fail: the intake takes nothing (and was asked), or the source has stopped."""
        source: Any = self.source
        return source.info()["error"] is not None or (self.intake.result is not None and len(self.intake.events) > 0)
