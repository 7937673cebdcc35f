"""The source `redis` through outages and restarts: the suite for sources that fetch their events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from gateway_dev import servers
from gateway_redis.binding import REDIS, fields_of
from gateway_testing.link import Link
from gateway_testing.suites import Kit, PullingSourceSuite, SourceRemote
from gateway_testing.vectors import Vector

from gateway_core.contract.event import Message
from gateway_core.contract.interfaces import Source
from tests.redis.conftest import RedisKit

GROUP = "suite"


class StreamRemote(SourceRemote):
    """A stream on the server of the run, behind a link that can be cut."""

    def __init__(self, kit: RedisKit) -> None:
        self._kit = kit
        self.link = Link("127.0.0.1", kit.server.port)

    async def open(self) -> None:
        self.link.restore()

    async def close(self) -> None:
        self.link.__exit__()

    async def publish(self, vector: Vector) -> None:
        await anyio.to_thread.run_sync(self._kit.add, fields_of(vector.binary(REDIS)))

    async def nonsense(self) -> None:
        self._kit.add(fields_of(Message([(b"a", b"b")])))

    async def leave(self) -> None:
        self.link.cut()

    async def take(self) -> None:
        self.link.restore()

    async def acknowledged(self) -> int | None:
        kit = self._kit
        groups: Any = kit.redis.xinfo_groups(kit.stream)
        (group,) = groups
        handed_out: Any = kit.redis.xrange(kit.stream, "-", group["last-delivered-id"])
        return len(handed_out) - int(group["pending"])


def consumers(kit: RedisKit) -> set[str]:
    found: Any = kit.redis.xinfo_consumers(kit.stream, GROUP)
    return {consumer["name"].decode() for consumer in found}


@pytest.mark.spec("RD-03")
class TestRedisPulling(PullingSourceSuite):
    survives = True

    @pytest.fixture
    def kit(self, tmp_path: Path, redis_server: servers.Server) -> Kit:
        return RedisKit(tmp_path, redis_server)

    def remote(self, kit: Kit) -> StreamRemote:
        assert isinstance(kit, RedisKit)
        return StreamRemote(kit)

    async def ready(self, source: Source) -> None:
        await super().ready(source)
        its, info = self.its, source.info()  # type: ignore[attr-defined]
        await self.until(lambda: info["consumer"] in consumers(its), "the consumer to read")

    def build(self, kit: Kit, remote: Any, **options: Any) -> Source:
        assert isinstance(kit, RedisKit)
        self.its = kit
        url = f"redis://127.0.0.1:{remote.link.port}/{kit.stream}"
        return kit.source("redis", {"url": url, "group": GROUP, "start": "0", "claim_idle_s": 0.6, **options})
