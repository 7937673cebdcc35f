"""`tidegate replay`: past events to one trigger again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from gateway_core.contract.moments import time_ns_of
from tests.command_line import tidegate
from tests.explain.test_why import ways, why
from tests.ledger import free_port
from tests.replay import lab

pytestmark = pytest.mark.usefixtures("processes")


@pytest.mark.spec("AGAIN-05", "AGAIN-06", "AGAIN-07")
def test_the_events_of_a_time_go_to_one_trigger_again(tmp_path: Path) -> None:
    with Subscriber() as s, GatewayProcess(lab.config(s), tmp_path) as g:
        lab.send(g, lab.ids(10))
        begin = lab.now(g)
        lab.send(g, lab.ids(20, 10))
        lab.send(g, lab.ids(5, 50), "t.b")
        lab.send(g, lab.ids(5, 60), subject="x")
        end = lab.now(g)
        lab.send(g, lab.ids(10, 30))
        s.wait_for(45 + 50)
        s.requests.clear()
        span = ("--from", begin, "--to", end)
        begin_ns, end_ns = time_ns_of(begin), time_ns_of(end)
        counts = lab.run(g, "replay", "one", *span, "--dry-run")
        assert (counts["count"], counts["types"]) == (25, {"t.a": 25})
        assert begin_ns <= time_ns_of(counts["first"]) <= time_ns_of(counts["last"]) < end_ns
        assert lab.run(g, "replay", "one", *span, "--filter", "subject=x", "--dry-run")["count"] == 5
        assert not s.requests
        done = lab.run(g, "replay", "one", *span, "--wait")
        assert [done[n] for n in ("state", "count", "delivered", "given_up", "left")] == ["done", 25, 25, 0, 0]
        assert lab.got(s, "one") == dict.fromkeys(lab.ids(20, 10) + lab.ids(5, 60), 1)
        assert not lab.got(s, "two")
        assert not any("ce-tidegatereplay" in r.headers for r in s.requests)
        s.requests.clear()
        marked = lab.run(g, "replay", "one", *span, "--filter", "subject = 'x'", "--mark", "--rate", "100", "--wait")
        assert [r.headers["ce-tidegatereplay"] for r in s.requests] == [marked["id"]] * 5
        assert [row["id"] for row in lab.run(g, "replay", "list")] == [done["id"], marked["id"]]
        assert lab.run(g, "replay", "status", done["id"])["state"] == "done"
        audit = [json.loads(line) for line in (g.data_dir / "audit" / "audit.jsonl").read_text().splitlines()]
        mine = [line for line in audit if line.get("replay") == done["id"]]
        assert [line["what"] for line in mine] == ["replay.start", "replay.end"]
        assert (mine[1]["state"], mine[1]["delivered"], mine[0]["trigger"]) == ("done", 25, "one")


@pytest.mark.spec("AGAIN-08", "AGAIN-23")
def test_what_fails_again_is_in_the_dead_letter_of_the_trigger(tmp_path: Path) -> None:
    bad = False
    with (
        Subscriber(decide=lambda r: 400 if bad and int(r.headers["ce-id"]) % 2 else 202) as s,
        GatewayProcess(lab.config(s), tmp_path) as g,
    ):
        lab.send(g, lab.ids(10))
        s.wait_for(20)
        bad = True
        done = lab.run(g, "replay", "one", "--from", "1h", "--wait", code=1)
        assert (done["state"], done["delivered"], done["given_up"]) == ("done", 5, 5)
        measured = g.admin("/metrics").text
        for result in ("delivered", "given_up"):
            labels = f'{{trigger="one",broker="default",result="{result}"}}'
            assert f"tidegate_trigger_events_replayed_total{labels} 5\n" in measured
        g.wait_until(lambda: 'tidegate_replays_active{of="events"} 0\n' in g.admin("/metrics").text, what="its end")
        assert 'tidegate_replays_failed_total{of="dead_letters"} 0\n' in measured
        assert lab.tidegate("dlq", "replay", "--all", "--data-dir", g.data_dir).returncode == 1
        assert 'tidegate_replays_failed_total{of="dead_letters"} 1\n' in g.admin("/metrics").text
        letters = json.loads(lab.tidegate("dlq", "list", "--json", "--data-dir", g.data_dir).stdout)
        assert sorted(row["event_id"] for row in letters) == ["1", "3", "5", "7", "9"]
        assert {row["trigger"] for row in letters} == {"one"}


@pytest.mark.spec("AGAIN-09")
def test_what_cannot_be_replayed_is_refused_with_the_reason(tmp_path: Path) -> None:
    with Subscriber() as s:
        channel = "retention: {max_age_s: 1}, check_interval_s: 0.2"
        with GatewayProcess(lab.config(s, channel), tmp_path) as g:
            lab.send(g, lab.ids(3))
            s.wait_for(6)
            log = g.status()["brokers"][0]
            g.wait_until(lambda: g.status()["brokers"][0]["channel"]["events"] == 0, what="retention")
            assert log
            lab.send(g, lab.ids(1, 5))
            s.wait_for(8)
            said = lab.refused(g, "replay", "one", "--from", "1h")
            assert "has deleted events since" in said
            assert "say --from" in said or "all events that it once had" in said
            assert "no trigger 'three'; triggers: one, two" in lab.refused(g, "replay", "three", "--from", "1h")
            assert "in the future" in lab.refused(g, "replay", "one", "--from", "1h", "--to", "2999-01-01T00:00:00Z")
            assert "`from` must be before `to`" in lab.refused(g, "replay", "one", "--from", "1h", "--to", "2h")
            assert "is not a time" in lab.refused(g, "replay", "one", "--from", "noon")
            assert "is no wildcard" in lab.refused(g, "replay", "one", "--from", "1h", "--filter", "type=a*")
            assert "there is no replay 'x'" in lab.refused(g, "replay", "cancel", "x")


@pytest.mark.spec("AGAIN-10", "AGAIN-11", "AGAIN-23", "AGAIN-24")
def test_a_replay_is_paused_over_a_restart_resumed_and_cancelled(tmp_path: Path) -> None:
    with Subscriber() as s, GatewayProcess(lab.config(s), tmp_path) as g:
        lab.send(g, lab.ids(400))
        s.wait_for(800)
        s.requests.clear()
        job = lab.run(g, "replay", "one", "--from", "1h", "--rate", "100")["id"]
        s.wait_for(20)
        assert "is running" in lab.refused(g, "replay", "one", "--from", "1h")
        assert 'tidegate_replays_active{of="events"} 1' in g.admin("/metrics").text
        assert [*told(g, "0", "one"), *told(g, "399", "one"), *told(g, "0", "two")] == [
            f"replay {job} has sent it again",
            f"replay {job} sends it again",
        ]
        example = tmp_path / "event.json"
        example.write_text('{"specversion": "1.0", "id": "x", "source": "/s", "type": "t.a"}')
        explained = tidegate("explain", example, "--data-dir", g.data_dir).stdout
        assert explained.count(f"replay {job} sends such events again, if they were accepted from ") == 1
        assert lab.run(g, "replay", "pause", job)["state"] == "paused"
        g.wait_until(lambda: lab.run(g, "replay", "status", job)["left"] < 400, what="the pause")
        g.stop()
        taken = len(s.requests)
        g.start()
        paused = lab.run(g, "replay", "status", job)
        assert (paused["state"], paused["delivered"]) == ("paused", taken)
        lab.run(g, "replay", "resume", job)
        s.wait_for(taken + 50)
        lab.run(g, "replay", "cancel", job)
        g.wait_until(lambda: lab.run(g, "replay", "status", job)["ended"] is not None, what="the end")
        found = lab.run(g, "replay", "status", job)
        assert found["state"] == "cancelled"
        assert found["delivered"] == len(s.requests) < 400
        assert set(lab.got(s, "one").values()) == {1}
        assert lab.run(g, "replay", "one", "--from", "1h", "--wait")["delivered"] == 400


@pytest.mark.spec("AGAIN-12")
def test_events_of_one_key_come_in_the_order_of_the_log_over_a_reload(tmp_path: Path) -> None:
    with Subscriber() as s, GatewayProcess(lab.config(s, one="delivery: {order: key}"), tmp_path) as g:
        for n in range(150):
            lab.send(g, [f"{n}"], partitionkey=f"k{n % 3}")
        s.wait_for(300)
        s.requests.clear()
        job = lab.run(g, "replay", "one", "--from", "1h", "--rate", "200")["id"]
        s.wait_for(30)
        g.config.write_text(g.config.read_text().replace("order: key", "order: key, max_in_flight: 8"))
        g.wait_until(lambda: lab.run(g, "replay", "status", job)["state"] == "done", what="the end")
        for key in range(3):
            seen = [int(r.headers["ce-id"]) for r in s.requests if r.headers["ce-partitionkey"] == f"k{key}"]
            assert list(dict.fromkeys(seen)) == list(range(key, 150, 3))
        assert lab.run(g, "replay", "status", job)["delivered"] == 150


def test_another_sink_gets_them_in_the_triggers_place(tmp_path: Path) -> None:
    with (
        Subscriber() as s,
        Subscriber(decide=lambda r: 400 if r.headers["ce-id"] == "3" else 202) as other,
        GatewayProcess(lab.config(s), tmp_path) as g,
    ):
        lab.send(g, lab.ids(10))
        s.wait_for(20)
        s.requests.clear()
        done = lab.run(g, "replay", "one", "--from", "1h", "--to-sink", other.url + "there", "--wait", code=1)
        assert (done["state"], done["delivered"], done["given_up"]) == ("done", 9, 1)
        assert done["faults"][0]["id"] == "3"
        assert not s.requests
        assert lab.got(other, "there") == dict.fromkeys(lab.ids(10), 1)
        assert "no sink has the scheme" in lab.refused(g, "replay", "one", "--from", "1h", "--to-sink", "gopher://x/")


@pytest.mark.spec("AGAIN-20")
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_why_knows_that_a_replay_delivered_what_was_given_up(tmp_path: Path, workers: int) -> None:
    """The dead letter stays, whoever delivers the event after all; so does what is known, over a kill."""
    bad = True
    port = free_port() if workers > 1 else 0
    with (
        Subscriber(decide=lambda r: 400 if bad and r.path == "/one" else 202) as s,
        GatewayProcess(lab.config(s, port=port), tmp_path, {"TIDEGATE_WORKERS": f"{workers}"}) as g,
    ):
        lab.send_to_all(g, lab.ids(16), workers)
        g.wait_until(lambda: len(letters(g)) == 16, what="the dead letters")
        assert lab.shards(g, lab.ids(16)) == {f"{n}" for n in range(workers)}
        lab.run(g, "why", "3", code=1)
        failed = lab.run(g, "replay", "one", "--from", "1h", "--wait", code=1)
        assert (failed["delivered"], failed["given_up"]) == (0, 16)
        lab.run(g, "why", "3", code=1)
        bad = False
        assert lab.run(g, "replay", "one", "--from", "1h", "--wait")["delivered"] == 16
        for _ in range(2):
            for id_ in lab.ids(16):
                g.wait_until(lambda id_=id_: "; replayed at " in way(g, id_)["text"], what=f"event {id_}")
                assert way(g, id_)["state"] == "delivered"
                assert way(g, id_)["text"].endswith("; its dead letter is still stored")
            g.kill()
            g.start()
        ran = tidegate("dlq", "replay", "--all", "--redelivered", "--data-dir", g.data_dir)
        assert ran.stdout == "32 replayed, 0 left\n"
        assert tidegate("dlq", "list", "--data-dir", g.data_dir).stdout.startswith("no dead letters\n")


def letters(gateway: GatewayProcess) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(tidegate("dlq", "list", "--json", "--data-dir", gateway.data_dir).stdout)
    return found


def told(gateway: GatewayProcess, id_: str, trigger: str) -> list[str]:
    """What `why` says of running replays."""
    return list(ways(why(gateway, id_))[trigger].get("replays", []))


def way(gateway: GatewayProcess, id_: str) -> dict[str, str]:
    """What is known of an event at trigger `one`."""
    found: dict[str, str] = ways(why(gateway, id_))["one"]
    return found


@pytest.mark.spec("AGAIN-28")
def test_a_replay_continues_after_its_gateway_was_restored(tmp_path: Path) -> None:
    with Subscriber() as s, GatewayProcess(lab.config(s), tmp_path) as g:
        lab.send(g, lab.ids(200))
        s.wait_for(400)
        job = lab.run(g, "replay", "one", "--from", "1h", "--rate", "100")["id"]
        s.wait_for(420)
        assert tidegate("backup", tmp_path / "copy", "--data-dir", g.data_dir).returncode == 0
        g.kill()
        shutil.rmtree(g.data_dir)
        assert tidegate("restore", tmp_path / "copy", "--data-dir", g.data_dir).returncode == 0
        s.requests.clear()
        g.start()
        g.wait_until(lambda: lab.run(g, "replay", "status", job)["state"] == "done", what="the end")
        done = lab.run(g, "replay", "status", job)
        assert (done["delivered"], done["gone"]) == (200, 0)
        assert len(lab.got(s, "one")) >= 100
