"""Kits with a stream of their own, and servers that a test may kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pytest
import redis
from gateway_dev import servers
from gateway_testing.suites import Kit


def plain(server: servers.Server) -> redis.Redis:
    """A blocking client that looks at streams directly."""
    return redis.Redis(port=server.port, protocol=2, socket_timeout=60)


class RedisKit(Kit):
    """A kit with a server, and a stream of its own."""

    def __init__(self, folder: Path, server: servers.Server) -> None:
        super().__init__(folder)
        self.server = server
        self.stream = f"suite-{uuid5(NAMESPACE_URL, str(folder)).hex[:12]}"
        self.redis: Any = plain(server)

    def add(self, fields: list[bytes]) -> bytes:
        """Adds an entry to the stream, and returns its id."""
        return bytes(self.redis.execute_command("XADD", self.stream, "*", *fields))


@pytest.fixture
def own_redis(processes: None, tmp_path: Path) -> Iterator[servers.Server]:
    """A server that the test may kill. It writes before it answers; with `everysec` it does not while its disk is
    slow."""
    with servers.redis(tmp_path / "redis", settings="appendfsync always") as server:
        yield server


@pytest.fixture
def kit(tmp_path: Path, redis_server: servers.Server) -> Iterator[RedisKit]:
    kit = RedisKit(tmp_path, redis_server)
    yield kit
    kit.redis.close()
