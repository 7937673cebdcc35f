"""Events that were given up are never called delivered, whatever kind of dead letter has them, also after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import Received, Subscriber
from gateway_testing.process import GatewayProcess

from tests.command_line import tidegate

from .test_why import send, ways, why

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.spec("SAFE-90")]

CONFIG = """
brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:0"}}], delivery: {{retry: 1, backoff_delay_s: 0.01}}}}}}
triggers:
  good: {{subscriber: "{url}good"}}
  file: {{subscriber: "{url}never", dead_letter: {{file: {{path: "{folder}/letters.jsonl"}}}}}}
  http: {{subscriber: "{url}never", dead_letter: "{url}letters"}}
bridges:
  direct: {{source: {{http: {{listen: "127.0.0.1:0"}}}}, sink: "{url}never"}}
"""


@contextmanager
def running(folder: Path) -> Iterator[GatewayProcess]:
    def decide(request: Received) -> Any:
        return 503 if request.path == "/never" else 202

    with (
        Subscriber(decide=decide) as subscriber,
        GatewayProcess(CONFIG.format(url=subscriber.url, folder=folder), folder, {}) as gateway,
    ):
        yield gateway


def states(gateway: GatewayProcess) -> dict[str, str]:
    found = why(gateway, "1")
    return {name: way["state"] for name, way in ways(found).items()} if found["events"] else {}


def test_why_and_dlq_tell_the_truth_also_after_a_kill(tmp_path: Path) -> None:
    expected = {"good": "delivered", "file": "dead_lettered", "http": "given_up"}
    with running(tmp_path) as gateway:
        send(gateway.ingress(), "1")
        gateway.wait_until(lambda: states(gateway) == expected, what=f"{expected}")
        send(gateway.ingress("direct"), "2")
        (way,) = why(gateway, "2")["events"][0]["deliveries"]
        assert (way["state"], way["text"].startswith("returned to its sender at ")) == ("returned", True)
        asked = tidegate("why", "--data-dir", gateway.data_dir, "1")
        assert (asked.returncode, "trigger http: given up\n" in asked.stdout) == (1, True)
        gateway.kill()
    with running(tmp_path) as gateway:
        assert states(gateway) == expected
        found = ways(why(gateway, "1"))
        assert found["http"]["text"].startswith("given up at ")
        assert "/letters, after 2 attempts: 503" in found["http"]["text"]
        assert (found["http"]["given_up"]["attempts"], found["http"]["given_up"]["code"]) == (2, 503)

        told = "1 event of http was given up and sent to http://127.0.0.1"
        listed = tidegate("dlq", "list", "--data-dir", gateway.data_dir)
        assert (listed.returncode, told in listed.stdout) == (0, True)
        (row,) = json.loads(tidegate("dlq", "list", "--data-dir", gateway.data_dir, "--json").stdout)
        assert (row["trigger"], row["event_id"], row["code"]) == ("file", "1", "503")
        only = tidegate("dlq", "list", "--data-dir", gateway.data_dir, "--trigger", "http")
        assert (only.returncode, only.stdout.splitlines()[0]) == (1, "no dead letters that can be read here")
        gateway.stop()
        offline = tidegate("dlq", "list", "-c", gateway.config, "--data-dir", gateway.data_dir)
        assert told in offline.stdout
        checked = tidegate("check", gateway.config)
        assert "triggers.http.dead_letter: `tidegate dlq`, `why` and the console can't read" in checked.stdout
        assert "triggers.file" not in checked.stdout


def test_an_id_may_be_cut_short(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        for id_ in ("abc-1", "abc-2", "other-7"):
            send(gateway.ingress(), id_)
        told = tidegate("why", "--data-dir", gateway.data_dir, "other")
        assert "event id other-7, source /s, type t" in told.stdout
        several = tidegate("why", "--data-dir", gateway.data_dir, "abc")
        assert several.returncode == 1
        assert several.stdout.splitlines() == [
            "several events have an id that begins with abc: give more of it",
            "  abc-2  /s  t",
            "  abc-1  /s  t",
        ]
        whole = tidegate("why", "--data-dir", gateway.data_dir, "abc-1")
        assert "event id abc-1," in whole.stdout
        assert "no event with the id zz found" in tidegate("why", "--data-dir", gateway.data_dir, "zz").stdout
