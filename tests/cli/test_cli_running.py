"""`tidegate run` as a process, and the commands that talk to a running gateway."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_admin.cli.status import tables

from gateway_core.cli.run import banner
from gateway_core.contract.status import GatewayStatus

CONFIG = """
brokers:
  default: {{ingress: [{{http: {{listen: "127.0.0.1:{port}"}}}}]}}
triggers:
  archive: {{subscriber: {{file: {{path: archive.jsonl}}}}}}
"""
COMMAND = [sys.executable, "-c", "from gateway_core.cli import main; main()"]


def eventually(condition: Any, timeout_s: float = 60.0) -> Any:
    """The condition's first true value."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.02)
    return value


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A gateway with its data directory beside its config."""
    (tmp_path / "tidegate.yaml").write_text(CONFIG.format(port=0))
    env = {k: v for k, v in os.environ.items() if not k.startswith("TIDEGATE_")}
    command = [*COMMAND, "run", "--admin", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as process:
        try:
            eventually(lambda: (tmp_path / "tidegate-data/gateway.json").exists() or process.poll() is not None)
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.usefixtures("processes")
def test_from_start_to_stop(tidegate, gateway: subprocess.Popen[str], tmp_path: Path) -> None:
    url = json.loads((tmp_path / "tidegate-data/gateway.json").read_text())["ingress"]["default"][0]
    assert tidegate("send", url, "--type", "t", "--id", "1").code == 0

    def delivered() -> Any:
        status = json.loads(tidegate("status", "--json").out)
        return status if status["triggers"][0]["delivered"] else None

    status = eventually(delivered)
    assert (status["pid"], status["brokers"][0]["accepted"]) == (gateway.pid, 1)
    assert json.loads((tmp_path / "archive.jsonl").read_text())["id"] == "1"
    text = tidegate("status").out
    assert "TRIGGER" in text
    assert url in text

    gateway.send_signal(signal.SIGTERM)
    _, err = gateway.communicate(timeout=30)
    assert gateway.returncode == 0
    ready = next(line for line in map(json.loads, err.splitlines()) if line["message"] == "ready")
    assert ready["ingress"] == {"default": [url]}
    ran = tidegate("status")
    assert (ran.code, "no gateway is running with the data directory tidegate-data" in ran.err) == (1, True)


@pytest.mark.slow
def test_a_port_that_is_taken_is_3(tidegate, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (tmp_path / "tidegate.yaml").write_text(CONFIG.format(port=taken.getsockname()[1]))
        ran = tidegate("run", "--admin", "off")
    assert (ran.code, ran.out) == (3, "")
    assert "tidegate: " in ran.err
    assert "Traceback" not in ran.err


def test_an_admin_address_where_nobody_answers(tidegate) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ran = tidegate("status", "--admin", f"127.0.0.1:{port}")
    assert (ran.code, f"tidegate: no status from http://127.0.0.1:{port}: " in ran.err) == (1, True)


def entry(**values: Any) -> dict[str, Any]:
    counts = dict.fromkeys(("accepted", "refused", "unrouted", "delivered", "attempts", "retried"), 0)
    counts |= dict.fromkeys(("dead_lettered", "in_flight", "lag", "failed"), 0)
    return {"name": "n", "ready": True, "reason": "", **counts, **values}


def status(accepted: int, delivered: int) -> GatewayStatus:
    document = {
        "version": "1.2.3",
        "data_dir": "/data",
        "brokers": [entry(name="default", ingress=["http://a/"], channel={"name": "log"}, accepted=accepted)],
        "triggers": [
            entry(name="late", broker="default", subscriber="http://s/", delivered=delivered, lag=None),
            entry(name="lost", broker="gone", subscriber=None, ready=False, reason="broker 'gone' does not exist"),
        ],
        "bridges": [entry(name="b", source="http://in/", sink="stdout", delivered=delivered)],
    }
    return GatewayStatus.read(document)


def test_it_says_what_is_wrong() -> None:
    _, triggers, _ = tables(status(1, 1))
    assert (triggers[2][1][1], triggers[2][1][-1]) == ("no", "broker 'gone' does not exist")


def test_the_banner_says_where_events_go() -> None:
    text = banner(status(0, 0), {"default": ["http://[::1]:8080/"]}, {"admin": "http://127.0.0.1:9080"}).plain
    assert "default accepts events at http://[::1]:8080/" in text
    assert "late -> http://s/" in text
    assert "lost -> broker 'gone' does not exist" in text
    assert "admin at http://127.0.0.1:9080" in text


def test_a_misspelt_setting_is_warned_of_but_not_those_of_others(tidegate, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TIDEGATE_WORKER", "3")
    monkeypatch.setenv("TIDEGATE_SERVICE_HOST", "10.0.0.1")
    (tmp_path / "tidegate.yaml").write_text("brokers: 7\n")
    ran = tidegate("run")
    assert "TIDEGATE_WORKER is not a setting and has no effect: did you mean TIDEGATE_WORKERS?" in ran.err
    assert (ran.code, "SERVICE_HOST" in ran.err) == (1, False)
