"""Nothing that a reload meets ends a gateway: files that can't be read, disks, parts that raise."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import Subscriber

from tests import web
from tests.cli.test_cli_running import eventually
from tests.ledger import body_of, free_port, headers

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
include: more/*.yaml
"""
TRIGGER = "triggers: {NAME: {subscriber: URL}}\n"
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2


def as_anyone() -> None:
    """So that permissions hold for root, too (in the process that is about to begin)."""
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP; fails without effect for others


class Running:
    """A gateway on a folder of config files."""

    def __init__(self, folder: Path, url: str, *flags: str) -> None:
        self.folder, self.conf, self.port = folder, folder / "conf", free_port()
        (self.conf / "more").mkdir(parents=True)
        (self.conf / "main.yaml").write_text(CONFIG.replace("PORT", str(self.port)))
        (self.conf / "more/one.yaml").write_text(TRIGGER.replace("NAME", "one").replace("URL", url))
        self.errors = folder / "stderr"
        command = [sys.executable, "-m", "gateway_core.cli", "run", "conf", "--admin", "127.0.0.1:0", *flags]
        env = {**os.environ, "TIDEGATE_DATA_DIR": str(folder / "data"), "TIDEGATE_LOG_FORMAT": "json"}
        with self.errors.open("wb") as out:
            self.process = subprocess.Popen(command, cwd=folder, env=env, stderr=out, preexec_fn=as_anyone)
        eventually(lambda: (folder / "data/gateway.json").exists() or self.process.poll() is not None)
        self.admin: str = json.loads((folder / "data/gateway.json").read_text())["admin"]
        token = (folder / "data/admin.token").read_text().strip()
        self.headers = {"authorization": f"Bearer {token}"}

    def status(self) -> dict[str, Any]:
        assert self.process.poll() is None, self.errors.read_text()
        document: dict[str, Any] = web.get(f"{self.admin}/status", verify=False, headers=self.headers).json()
        return document

    def error(self) -> str:
        return self.status()["config"]["error"] or ""

    def send(self, number: int) -> None:
        answer = web.post(
            f"http://127.0.0.1:{self.port}/", content=body_of(number), headers=headers(number), verify=False
        )
        assert answer.status_code == 202

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.errors.read_text().splitlines() if line.startswith("{")]


Start = Callable[..., Running]


@pytest.fixture
def subscriber() -> Iterator[Subscriber]:
    with Subscriber() as running:
        yield running


@pytest.fixture
def running(tmp_path: Path, subscriber: Subscriber) -> Iterator[Running]:
    gateway = Running(tmp_path, subscriber.url)
    yield gateway
    for folder, _, _ in os.walk(tmp_path):
        os.chmod(folder, 0o700)
    gateway.process.kill()
    gateway.process.wait()


@pytest.mark.spec("SAFE-04")
@pytest.mark.parametrize("folder", ["conf", "conf/more", "data/applied"])
def test_a_folder_that_cannot_be_listed_changes_nothing(
    running: Running, subscriber: Subscriber, tmp_path: Path, folder: str
) -> None:
    made = web.put(
        f"{running.admin}/api/v1/triggers/applied",
        content=f"subscriber: {subscriber.url}applied",
        headers={"content-type": "application/yaml", **running.headers},
        verify=False,
    )
    assert made.status_code == 201
    (tmp_path / folder).chmod(0o000)
    running.process.send_signal(signal.SIGHUP)  # for a folder of an `include` is not watched
    eventually(lambda: "Permission denied" in running.error())
    assert folder in running.error()
    assert any(line["level"] == "error" and folder in line["message"] for line in running.log())
    running.send(1)
    eventually(lambda: len(subscriber.requests) == 2)
    assert [t["name"] for t in running.status()["triggers"]] == ["one", "applied"]
    (tmp_path / folder).chmod(0o700)
    running.process.send_signal(signal.SIGHUP)
    eventually(lambda: not running.error())
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(30) == 0


@pytest.mark.spec("SAFE-04")
def test_the_watcher_says_so_without_being_asked(running: Running, tmp_path: Path) -> None:
    (tmp_path / "conf").chmod(0o000)
    eventually(lambda: "Permission denied" in running.error())
    (tmp_path / "conf").chmod(0o700)
    eventually(lambda: not running.error())


@pytest.mark.spec("SAFE-04")
def test_a_data_directory_that_takes_no_files_ends_nothing(
    running: Running, subscriber: Subscriber, tmp_path: Path
) -> None:
    (tmp_path / "data/log").chmod(0o500)  # no log can be made
    (tmp_path / "data").chmod(0o500)  # and the address file can't be replaced
    more = 'brokers: {other: {ingress: [{http: {listen: "127.0.0.1:0", path: /o}}]}}\n'
    (tmp_path / "conf/other.yaml").write_text(more)
    eventually(lambda: "brokers.other" in running.error() or "other" in running.error())
    running.send(1)
    eventually(lambda: len(subscriber.requests) == 1)
    assert any("can't write in the data directory" in line["message"] for line in running.log())
    (tmp_path / "data").chmod(0o700)
    (tmp_path / "data/log").chmod(0o700)
    running.process.send_signal(signal.SIGHUP)
    eventually(lambda: not running.error())
    assert [b["ready"] for b in running.status()["brokers"]] == [True, True]
