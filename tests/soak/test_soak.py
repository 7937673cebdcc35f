"""A short soak without Kafka and Spark, and the loss that its ledger finds. `make soak` is the long form."""

from __future__ import annotations

import json
import random
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.planted import install
from tests.soak.__main__ import BROKEN, KEPT, soak
from tests.soak.charts import chart
from tests.soak.faults import ALL, order
from tests.soak.ledger import Account, Control
from tests.soak.operator_faults import pause
from tests.soak.world import Options, World

pytestmark = pytest.mark.spec("SOAK-01")

SOME = (
    "worker: kill -9",
    "gateway: SIGSTOP",
    "subscriber: kill -9",
    "subscriber: takes events, cuts the answer",
    "dead letter: 503",
    "operator: reload",
)
# a gateway that takes the answer "delivered" for granted, now and then
LOSES = """
from gateway_core.contract.outcome import DELIVERED
from gateway_http import client

send = client.NativeSink.send

def forgets(self, event, timeout_s, done):
    if event.attributes["id"].endswith("33"):
        done(DELIVERED)
    else:
        send(self, event, timeout_s, done)

client.NativeSink.send = forgets
"""


def run(folder: Path, seconds: float, **more: Any) -> tuple[int, dict[str, Any]]:
    small = {"rate": 200.0, "every_s": 0.8, "kafka": False, "tables": (), "disk_mb": 128, "capacity": 1 << 20}
    code = soak(Options(seconds, folder / "soak", **{**small, **more}), quiet=True)
    figures: dict[str, Any] = json.loads((folder / "soak" / "figures.json").read_text())
    return code, figures


@pytest.mark.area(name="soak")
@pytest.mark.usefixtures("processes")
def test_a_short_soak_loses_nothing(tmp_path: Path) -> None:
    code, figures = run(tmp_path, 9, only=SOME)
    assert code == KEPT, figures["broken"]
    assert figures["lost"] == 0
    assert figures["faults"] >= 2
    assert all(route["accepted"] > 20 for route in figures["routes"].values())
    page = (tmp_path / "soak" / "report.md").read_text()
    assert f"{figures['faults']} faults" in page
    for line in page.splitlines():
        if line.startswith("!["):
            assert (tmp_path / "soak" / line.partition("](")[2].rstrip(")")).read_text().startswith("<svg")


@pytest.mark.full
@pytest.mark.usefixtures("processes")
def test_a_planted_loss_is_found(tmp_path: Path) -> None:
    code, figures = run(tmp_path, 4, only=("operator: reload",), env=install(tmp_path, LOSES), recovery_s=15.0)
    assert code == BROKEN
    assert figures["lost"] > 0
    assert any("are lost" in what for what in figures["broken"])


def test_the_ledger_sees_each_fault(tmp_path: Path) -> None:
    account = Account(tmp_path, "log", 1000)
    for number in account.take(500):
        account.accept(number)
        if number % 97:
            account.at["out"].arrived(number, False, 1)
        else:
            account.at["dead"].arrived(number, False, 1)
    assert account.open == 0
    assert (account.check(False).missing, account.check(False).misplaced) == (0, 0)
    account.at["out"].times.put(7, 0)
    account.at["out"].times.put(97, 1)
    account.at["dead"].times.put(8, 1)
    verdict = account.check(False)
    assert (verdict.missing, verdict.lost, verdict.misplaced) == (1, [7], 2)
    proxied = account.check(True)  # nothing arrived behind the proxy
    assert proxied.missing == 1 + 100
    account.at["out"].arrived(9, True, 3)
    account.at["out"].arrived(9, False, 3)
    assert account.at["out"].sent_again == 1
    assert account.at["out"].again.get(3) == 1
    assert Account(tmp_path, "log", 1000).at["out"].times.get(9) == 3, "another process sees the same"


def test_the_order_of_faults_follows_from_the_seed() -> None:
    def first(seed: str) -> list[str]:
        faults = order(list(ALL), seed)
        return [next(faults).name for _ in range(100)]

    assert first("1") == first("1")
    assert first("1") != first("2")
    assert set(first("1")[: len(ALL)]) == {fault.name for fault in ALL}
    assert len({fault.name for fault in ALL}) == len(ALL)


def test_a_pause_without_an_answer_is_resumed_all_the_same() -> None:
    asked: list[str] = []

    class Admin(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path.rpartition("/")[2])
            if len(asked) == 3:  # "pause" and the first "resume" get none
                self.send_response(200)
                self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with ExitStack() as stack, HTTPServer(("127.0.0.1", 0), Admin) as server:
        stack.callback(server.shutdown)
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        storm = SimpleNamespace(admin_url=f"http://127.0.0.1:{server.server_port}", admin_headers={})
        world = SimpleNamespace(storm=storm, options=SimpleNamespace(recovery_s=30))
        assert pause(cast(World, world), random.Random(1)) is None
    assert asked == ["pause", "resume", "resume"]


def test_moods_and_charts(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.set_mood(1, Control.DROP)
    assert (Control(tmp_path).mood(0), Control(tmp_path).mood(1)) == (Control.WELL, Control.DROP)
    picture = chart("A & B", {"a": [(0, 1), (10, 5)], "empty": []}, [3.0])
    assert "A &amp; B" in picture
    assert picture.count("<polyline") == 2
