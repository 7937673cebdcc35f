"""`tidegate dev mqtt|nats|rabbitmq|redis`: a server for local use, with one clear line where there can be none."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_dev import servers
from gateway_dev.examples import EXAMPLES

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load

pytestmark = pytest.mark.usefixtures("processes")
COMMAND = [sys.executable, "-m", "gateway_core.cli", "dev"]
NAMES = [
    "redis",
    *(pytest.param(name, marks=pytest.mark.area(name="dev")) for name in ("mqtt", "nats")),
    pytest.param("rabbitmq", marks=pytest.mark.full),
]


@contextmanager
def running(name: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command, once it says that the server is ready, and the server's port."""
    with subprocess.Popen([*COMMAND, name, "--port", "0", *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = re.search(r"is ready at \w+://127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert ready
            yield process, int(ready[1])
        finally:
            process.kill()


def failed(*arguments: str, env: dict[str, str] | None = None) -> str:
    """What it says before it ends with 1."""
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env={**os.environ, **(env or {})})
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    return done.stderr.splitlines()[-1]


def stopped(process: subprocess.Popen[str], how: signal.Signals) -> str:
    """Stops it; what it has said."""
    process.send_signal(how)
    assert process.stdout is not None
    out = process.stdout.read()
    assert process.wait() == 0
    return out


def example(out: str) -> str:
    """The config in what the command says."""
    return textwrap.dedent("".join(line for line in out.splitlines(keepends=True) if line.startswith("  ")))


@pytest.mark.spec("DEV-01")
@pytest.mark.parametrize("name", sorted(servers.ALL))
def test_the_config_that_it_shows_is_right(name: str, tmp_path: Path) -> None:
    (tmp_path / "tidegate.yaml").write_text(example(EXAMPLES[name].replace("HOST", "127.0.0.1:4000")))
    config = load([tmp_path / "tidegate.yaml"], Registry.installed(), {})
    assert config.brokers.keys() == {"default"}
    assert config.triggers.keys() == {"paid"}


@pytest.mark.spec("DEV-01")
@pytest.mark.parametrize("name", NAMES)
def test_it_runs_until_it_is_stopped_and_keeps_its_data(name: str, tmp_path: Path) -> None:
    data = servers.ALL[name](tmp_path).data
    with running(name, "--data-dir", str(tmp_path)) as (process, port):
        (data / "mark").touch()
        assert f"the data in {tmp_path}" in failed(name, "--port", "0", "--data-dir", str(tmp_path), "--fresh")
        socket.create_connection(("127.0.0.1", port), 60).close()
        out = stopped(process, signal.SIGINT)
        assert str(tmp_path) in out
        assert f"127.0.0.1:{port}" in out.partition("A gateway")[2]
        assert "Stopping" in out
    assert (data / "mark").exists()
    with running(name, "--data-dir", str(tmp_path), "--fresh") as (process, port):
        assert not (data / "mark").exists()
        stopped(process, signal.SIGTERM)


@pytest.mark.spec("DEV-01")
def test_it_says_when_the_server_dies(tmp_path: Path) -> None:
    with running("redis", "--data-dir", str(tmp_path)) as (process, port):
        with socket.create_connection(("127.0.0.1", port), 60) as client:
            client.sendall(b"SHUTDOWN NOSAVE\r\n")
        assert process.wait() == 1
