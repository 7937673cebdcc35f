"""A kill during a replay: what was delivered in earlier portions is not sent again, and no dead letter is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from gateway_cloudevents import event_json
from gateway_deadletter import line as line_format
from gateway_deadletter.replaying import PORTION
from gateway_testing import Received, Subscriber
from gateway_testing.process import GatewayProcess

from gateway_core.contract.event import Event
from tests.command_line import tidegate

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.spec("SAFE-240")]

CONFIG = """
brokers:
  default:
    ingress: [http: {{listen: "127.0.0.1:0"}}]
    dead_letter: {{{kind}: {{path: {file}}}}}
triggers: {{late: {{subscriber: "{url}"}}}}
"""
COUNT, BEFORE = 260, 230
"""Dead letters, and how many of them are delivered before the kill."""


def bury(file: Path, kind: str) -> None:
    facts = {"specversion": "1.0", "source": "/s", "type": "t", "tidegatetrigger": "late", "tidegatebroker": "default"}
    last = "2026-01-01T00:00:00Z"
    events = [Event({**facts, "id": f"{n}", "tidegatelast": last}) for n in range(COUNT)]
    lines = [line_format.write(e, n + 1) if kind == "deadletter" else event_json.line(e) for n, e in enumerate(events)]
    file.write_bytes(b"".join(line + b"\n" for line in lines))


class Slow:
    """Answers `BEFORE` requests, then nobody until it is let go."""

    def __init__(self) -> None:
        self.taken, self.let_go, self._lock = 0, threading.Event(), threading.Lock()

    def __call__(self, request: Received) -> int:
        with self._lock:
            self.taken += 1
            waits = self.taken > BEFORE
        if waits:
            self.let_go.wait(120)
        return 202


@pytest.mark.parametrize("kind", ["deadletter", "file"])
def test_of_the_gateway(tmp_path: Path, kind: str) -> None:
    slow, file = Slow(), tmp_path / "letters.jsonl"
    bury(file, kind)
    with (
        Subscriber(decide=slow) as subscriber,
        GatewayProcess(CONFIG.format(url=subscriber.url, file=file, kind=kind), tmp_path) as gateway,
    ):
        words = ("dlq", "replay", "--all", "--data-dir", gateway.data_dir)
        with subprocess.Popen(
            [sys.executable, "-m", "gateway_core.cli", *map(str, words)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as asked:
            gateway.wait_until(lambda: slow.taken > BEFORE, what="the third portion")
            gateway.kill()
            asked.kill()
        slow.let_go.set()
        seen = Counter(r.headers["ce-id"] for r in subscriber.requests)
        subscriber.requests.clear()
        gateway.start()
        assert tidegate(*words).stdout.endswith(" replayed, 0 left\n")
        again = Counter(r.headers["ce-id"] for r in subscriber.requests)
    assert seen.keys() | again.keys() == {f"{n}" for n in range(COUNT)}
    assert sum(again.values()) <= COUNT - BEFORE + PORTION
    assert file.read_bytes() == b""


def test_of_the_command(tmp_path: Path) -> None:
    slow, file, config = Slow(), tmp_path / "letters.jsonl", tmp_path / "tidegate.yaml"
    bury(file, "deadletter")
    with Subscriber(decide=slow) as subscriber:
        config.write_text(CONFIG.format(url=subscriber.url, file=file, kind="deadletter"))
        words = ("dlq", "replay", "--all", "-c", config, "--data-dir", tmp_path / "data", "--to", subscriber.url)
        with subprocess.Popen([sys.executable, "-m", "gateway_core.cli", *map(str, words)]) as killed:
            subscriber.wait_for(BEFORE)
            os.kill(killed.pid, signal.SIGKILL)
        slow.let_go.set()
        taken = len(subscriber.requests)
        assert tidegate(*words).returncode == 0
        again = len(subscriber.requests) - taken
    assert COUNT - BEFORE <= again <= COUNT - BEFORE + PORTION
