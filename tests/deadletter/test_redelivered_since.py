"""Dead letters whose trigger got the event after all, by a replay of past events or a rewind: they are marked, and
replays of dead letters leave them out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from tests import web
from tests.command_line import tidegate
from tests.ledger import free_port
from tests.replay import lab

pytestmark = pytest.mark.usefixtures("processes")


class World:
    """Six events that trigger `one` gave up while its subscriber was down; four of them are replayed since."""

    def __init__(self, subscriber: Subscriber, gateway: GatewayProcess) -> None:
        self.subscriber = subscriber
        self.gateway = gateway

    def letters(self, *words: str) -> dict[str, Any]:
        return {row["event_id"]: row["redelivered"] for row in lab.run(self.gateway, "dlq", "list", *words)}

    def said(self, *words: str) -> str:
        return tidegate("dlq", *words, "--data-dir", self.gateway.data_dir).stdout


@contextmanager
def world(folder: Path, kind: str = "log", workers: int = 1) -> Iterator[World]:
    up = False
    with Subscriber(decide=lambda r: 202 if up or r.path == "/two" else 400) as s:
        config = lab.config(s, port=free_port(), kind=kind)
        with GatewayProcess(config, folder, {"TIDEGATE_WORKERS": str(workers)}) as g:
            w = World(s, g)
            lab.send_to_all(g, lab.ids(6), workers)
            g.wait_until(lambda: {*w.letters()} == {*lab.ids(6)}, what="dead letters")
            up = True
            s.requests.clear()
            yield w


@pytest.mark.spec("AGAIN-33", "AGAIN-34")
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_those_of_a_replay_are_marked_and_left_out(tmp_path: Path, workers: int) -> None:
    with world(tmp_path, workers=workers) as w:
        assert w.letters() == dict.fromkeys(lab.ids(6))
        began = time.time()
        job = lab.run(w.gateway, "replay", "one", "--from", "1h", "--filter", "id IN ('0','1','2','3')", "--wait")
        assert job["delivered"] == 4

        def marked() -> bool:
            return {id_ for id_, since in w.letters().items() if since} == {*lab.ids(4)}

        w.gateway.wait_until(marked, what="the marks")
        for since in w.letters("--redelivered").values():
            assert since["by"] == job["id"]
            assert began - 1 < time.mktime(time.strptime(since["at"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        assert {*w.letters("--redelivered")} == {*lab.ids(4)}
        assert {*w.letters("--pending")} == {"4", "5"}
        assert len(w.letters("--pending", "--redelivered")) == 6
        listed = w.said("list")
        assert listed.count(f"by replay {job['id']}") == 4
        w.gateway.kill()
        w.gateway.start()
        assert marked(), "also after a kill"
        assert w.said("list", "-c", str(w.gateway.config), "--pending").count("400 Bad Request") == 2, "from the files"
        w.subscriber.requests.clear()
        left_out = "; 4 redelivered since, left out: --redelivered sends them\n"
        assert w.said("replay", "--all", "--dry-run").endswith(f"2 would be sent{left_out}")
        assert w.said("replay", "--all") == f"2 replayed, 0 left{left_out}"
        assert lab.got(w.subscriber, "one") == {"4": 1, "5": 1}
        assert w.said("replay", "--all") == f"0 replayed, 0 left{left_out}"
        letter = next(r["id"] for r in lab.run(w.gateway, "dlq", "list") if r["event_id"] == "0")
        assert f"by replay {job['id']}" in w.said("show", letter)
        assert w.said("replay", letter) == "1 replayed, 0 left\n", "asked for by its id"
        assert w.said("replay", "--all", "--redelivered") == "3 replayed, 0 left\n"
        assert lab.got(w.subscriber, "one") == dict.fromkeys(lab.ids(6), 1)
        assert w.said("list") == "no dead letters\n"


@pytest.mark.spec("AGAIN-33", "AGAIN-34")
def test_those_of_a_rewind_too_and_the_api_says_so(tmp_path: Path) -> None:
    with world(tmp_path) as w:
        g = w.gateway
        lab.run(g, "rewind", "one", "--to", "1h", "--yes")
        w.subscriber.wait_for(6)
        g.wait_until(lambda: all((since or {}).get("by") == "rewind" for since in w.letters().values()), what="marks")
        assert w.said("list").count("by a rewind") == 6

        def asked(path: str, **query: str) -> Any:
            return web.get(f"{g.admin_url}{path}", params=query, headers=g.admin_headers, verify=False)

        assert len(asked("/api/v1/dead-letters", redelivered="true").json()["items"]) == 6
        assert asked("/api/v1/dead-letters", redelivered="false").json()["items"] == []
        assert asked("/api/v1/dead-letters", redelivered="maybe").status_code == 422
        text = lab.run(g, "why", "3")["events"][0]["deliveries"][0]["text"]
        assert " by a rewind" in text
        found = asked("/api/v1/dead-letters").json()["items"][0]
        assert found["redelivered"]["by"] == "rewind"
        page = asked("/console/dead-letters").text
        assert page.count(">delivered since<") == 6
        assert asked("/console/dead-letters", redelivered="no").text.count(">delivered since<") == 0
        assert "by a rewind" in asked(f"/console/dead-letters/{found['id']}").text


@pytest.mark.spec("AGAIN-34")
def test_a_letter_of_a_later_failure_is_pending_again(tmp_path: Path) -> None:
    """What counts is whether the trigger got the event after the dead letter was written."""
    up = False
    with Subscriber(decide=lambda r: 202 if up else 400) as s, GatewayProcess(lab.config(s), tmp_path) as g:
        lab.send(g, lab.ids(1))
        w = World(s, g)
        g.wait_until(lambda: len(lab.run(g, "dlq", "list")) == 2, what="dead letters")
        up = True
        lab.run(g, "replay", "one", "--from", "1h", "--wait")
        g.wait_until(lambda: len(lab.run(g, "dlq", "list", "--redelivered")) == 1, what="the mark")
        up = False
        lab.run(g, "replay", "one", "--from", "1h", "--wait", code=1)
        g.wait_until(lambda: len(lab.run(g, "dlq", "list")) == 3, what="a third dead letter")
        pending = [row for row in lab.run(g, "dlq", "list", "--pending") if row["trigger"] == "one"]
        assert len(pending) >= 1
        up = True
        s.requests.clear()
        w.said("replay", "--all", "--trigger", "one")
        assert lab.got(s, "one")["0"] >= 1
