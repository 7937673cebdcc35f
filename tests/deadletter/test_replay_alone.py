"""A replay goes to the trigger that gave the event up, and to no other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from tests import web
from tests.command_line import tidegate
from tests.explain.test_why import send, ways, why

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.spec("SAFE-91")]

CONFIG = """
brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:0"}}], delivery: {{retry: 0}}}}}}
triggers:
  good: {{subscriber: "{url}good"}}
  late: {{subscriber: "{url}late"}}
  table: {{subscriber: "{url}table"}}
bridges:
  direct: {{source: {{http: {{listen: "127.0.0.1:0"}}}}, sink: "{url}late", dead_letter: deadletter}}
"""


class World:
    """A gateway whose subscribers at these paths are down until `up`."""

    gateway: GatewayProcess

    def __init__(self, folder: Path, *down: str) -> None:
        self.up = False
        self.down = down or ("/late",)
        self.folder = folder
        self.subscriber = Subscriber(decide=lambda r: 202 if self.up or r.path not in self.down else 503)

    def got(self, path: str) -> list[str]:
        found = [r for r in self.subscriber.requests if r.path == path]
        return sorted(r.headers["ce-id"] for r in found if self.up or path not in self.down)

    def letters(self) -> list[str]:
        rows = json.loads(tidegate("dlq", "list", "--json", "--data-dir", self.gateway.data_dir).stdout)
        return sorted(row["event_id"] for row in rows)

    def post(self, **body: Any) -> httpx.Response:
        url = f"{self.gateway.admin_url}/api/v1/replays"
        return web.post(url, json=body, headers=self.gateway.admin_headers, timeout=30)

    def ended(self, answer: httpx.Response) -> dict[str, Any]:
        id_ = answer.raise_for_status().json()["id"]

        def now() -> dict[str, Any]:
            found: dict[str, Any] = self.gateway.admin(f"/api/v1/replays/{id_}").json()
            return found

        self.gateway.wait_until(lambda: now()["state"] not in ("waiting", "running"), what="the end of the replay")
        return now()


@contextmanager
def world(folder: Path) -> Iterator[World]:
    made = World(folder)
    with made.subscriber as subscriber, GatewayProcess(CONFIG.format(url=subscriber.url), folder) as gateway:
        made.gateway = gateway
        yield made


def test_the_others_get_no_duplicate(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        ids = [str(n) for n in range(3)]
        for id_ in ids:
            send(w.gateway.ingress(), id_)
        w.gateway.wait_until(lambda: w.letters() == ids, what="three dead letters")

        still = w.ended(w.post(all=True))  # the subscriber is still down: nothing is sent on, no letter is lost or new
        assert (still["state"], still["accepted"], still["refused"], still["left"]) == ("failed", 0, 3, 3)
        assert still["detail"].startswith("trigger late still fails: 503")
        assert w.letters() == ids

        w.subscriber.requests.clear()
        w.up = True
        done = w.ended(w.post(all=True))
        assert (done["state"], done["accepted"], done["left"]) == ("done", 3, 0)
        assert (w.got("/late"), w.got("/good"), w.got("/table"), w.letters()) == (ids, [], [], [])
        way = ways(why(w.gateway, "1"))["late"]
        assert (way["state"], "; replayed at " in way["text"]) == ("delivered", True)
        w.gateway.kill()
        w.gateway.start()
        assert "; replayed at " in ways(why(w.gateway, "1"))["late"]["text"]


def test_all_triggers_only_with_the_count(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        for id_ in ("1", "2"):
            send(w.gateway.ingress(), id_)
        w.gateway.wait_until(lambda: w.letters() == ["1", "2"], what="two dead letters")
        w.subscriber.requests.clear()
        w.up = True
        for count in (None, 1):
            refused = w.post(all=True, all_triggers=True, **({} if count is None else {"count": count}))
            assert refused.status_code == 409
            assert "2 events would go to all triggers that match (good, late, table)" in refused.text
        options = ("--all", "--all-triggers", "-c", w.gateway.config, "--data-dir", w.gateway.data_dir)
        asked = tidegate("dlq", "replay", *options, text="n\n")
        assert (asked.returncode, "2 events go to all triggers" in asked.stdout + asked.stderr) == (1, True)
        assert w.got("/good") == []
        assert w.ended(w.post(all=True, all_triggers=True, count=2))["accepted"] == 2
        w.gateway.wait_until(lambda: w.got("/good") == w.got("/late") == ["1", "2"], what="duplicates, as asked for")


def test_the_command_sends_to_the_trigger_alone(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        for id_ in ("1", "2"):
            send(w.gateway.ingress(), id_)
        send(w.gateway.ingress("direct"), "3")
        w.gateway.wait_until(lambda: w.letters() == ["1", "2", "3"], what="three dead letters")
        w.subscriber.requests.clear()
        dry = tidegate("dlq", "replay", "--all", "--dry-run", "--data-dir", w.gateway.data_dir)
        assert (dry.returncode, dry.stdout.count("-> trigger late alone"), dry.stderr) == (0, 2, "")
        w.up = True
        ran = tidegate("dlq", "replay", "--all", "--data-dir", w.gateway.data_dir)
        assert (ran.returncode, ran.stdout) == (0, "3 replayed, 0 left\n")
        assert (w.got("/late"), w.got("/good"), w.letters()) == (["1", "2", "3"], [], [])
