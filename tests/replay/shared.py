"""What a replay does with any channel."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from tests.explain.test_why import ways, why
from tests.ledger import free_port
from tests.replay import lab
from tests.replay.rewinding import ask_to_rewind


def past_events_go_to_one_trigger(folder: Path, kind: str, options: str) -> None:
    """Fails unless a replay sends the events of its time to its trigger alone, over a kill."""
    with Subscriber() as s, GatewayProcess(lab.config(s, options, kind=kind), folder) as g:
        lab.send(g, lab.ids(5))
        begin = lab.now(g)
        lab.send(g, lab.ids(30, 10))
        lab.send(g, lab.ids(5, 50), "t.b")
        end = lab.now(g)
        lab.send(g, lab.ids(5, 60))
        s.wait_for(40 + 45)
        g.wait_until(g.drained)
        s.requests.clear()
        span = ("--from", begin, "--to", end)
        assert lab.run(g, "replay", "one", *span, "--dry-run")["count"] == 30
        job = lab.run(g, "replay", "one", *span, "--mark", "--rate", "30")["id"]
        s.wait_for(10)
        g.kill()
        g.start()
        g.wait_until(lambda: lab.run(g, "replay", "status", job)["ended"] is not None, what="the end")
        done = lab.run(g, "replay", "status", job)
        assert [done[n] for n in ("state", "count", "delivered", "left")] == ["done", 30, 30, 0]
        replayed = [r for r in s.requests if "ce-tidegatereplay" in r.headers]
        assert {r.path for r in replayed} == {"/one"}
        assert {r.headers["ce-id"] for r in replayed} == set(lab.ids(30, 10))


def a_trigger_goes_back(folder: Path, kind: str, options: str, workers: int = 1) -> None:
    """Fails unless a rewind sends everything since its time again, once, to its trigger alone, and what is new after
    that; also after a restart. `why` knows of an event from before the rewind that it was delivered."""
    port = free_port() if workers > 1 else 0
    with (
        Subscriber() as s,
        GatewayProcess(lab.config(s, options, port=port, kind=kind), folder, {"TIDEGATE_WORKERS": str(workers)}) as g,
    ):
        lab.send_to_all(g, lab.ids(10), workers)
        then = lab.now(g)
        lab.send_to_all(g, lab.ids(20, 10), workers)
        lab.send(g, lab.ids(5, 50), "t.b")
        s.wait_for(30 + 35)
        g.wait_until(g.drained)
        s.requests.clear()

        def counted() -> Any:
            return lab.run(g, "rewind", "one", "--to", then, "--dry-run")

        g.wait_until(lambda: counted()["count"] == 20, what="the stored places of all workers")
        assert counted()["types"] == {"t.a": 20}
        assert not s.requests
        assert lab.run(g, "rewind", "one", "--to", then, "--yes")["count"] == 20
        s.wait_for(20)
        lab.send(g, lab.ids(1, 90))
        s.wait_for(22)
        g.wait_until(g.drained)
        assert lab.got(s, "one") == dict.fromkeys([*lab.ids(20, 10), "90"], 1)
        assert lab.got(s, "two") == {"90": 1}
        states = [ways(why(g, id_))["one"]["state"] for id_ in ("3", "15", "90")]
        assert states in (["delivered"] * 3, ["settled", "delivered", "delivered"]), states
        s.requests.clear()
        assert lab.run(g, "rewind", "one", "--to", then, "--yes")["count"] == 21
        s.wait_for(21)
        g.wait_until(g.drained)
        assert set(lab.got(s, "one")) == {*lab.ids(20, 10), "90"}
        assert not lab.got(s, "two")


def what_was_not_settled_is_not_lost(folder: Path, kind: str, options: str) -> None:
    """Fails unless events from before the time of a rewind that wait at a failing subscriber stay, and those that were
    delivered before it, out of order, are left alone."""
    well = threading.Event()
    with (
        Subscriber(decide=lambda r: 202 if well.is_set() or int(r.headers["ce-id"]) not in (2, 8) else 503) as s,
        GatewayProcess(lab.config(s, options, "delivery: {retry: 1000, backoff_max_s: 0.3}", kind=kind), folder) as g,
    ):
        lab.send(g, lab.ids(6))
        g.wait_until(lambda: set(lab.ids(6)) <= {*lab.got(s, "one")}, what="the first attempts")
        then = lab.now(g)
        lab.send(g, lab.ids(4, 6))
        g.wait_until(lambda: {"9"} <= {*lab.got(s, "one")}, what="the others")
        g.wait_until(lambda: lab.run(g, "rewind", "one", "--to", then, "--dry-run")["count"] == 3, what="the answers")
        before = lab.got(s, "one")
        lab.run(g, "rewind", "one", "--to", then, "--yes")
        well.set()
        expected = {"2", *lab.ids(4, 6)}
        g.wait_until(lambda: expected <= {*(lab.got(s, "one") - before)}, what="everything")
        g.wait_until(g.drained)
        again = lab.got(s, "one") - before
        assert set(again) == expected, f"settled before that time: not again ({again})"
        assert [again[id_] for id_ in ("6", "7", "9")] == [1, 1, 1]


def killed_in_a_rewind(
    folder: Path, kind: str, options: str, delays: Sequence[float], stored: Callable[[GatewayProcess], bool]
) -> None:
    """Fails unless a kill at these moments of a rewind leaves the trigger where it was, or sends everything again; what
    was new meanwhile comes in any case. `stored` says whether the broker knows that everything is settled."""
    with Subscriber() as s, GatewayProcess(lab.config(s, options, kind=kind), folder) as g:
        lab.send(g, lab.ids(10))
        then = lab.now(g)
        lab.send(g, lab.ids(30, 10))
        s.wait_for(80)
        expected, new = {*lab.ids(30, 10)}, 100
        for delay in delays:
            g.wait_until(lambda: lab.run(g, "rewind", "one", "--to", then, "--dry-run")["count"] == len(expected))
            g.wait_until(lambda: stored(g), what="the stored place")
            s.requests.clear()
            asking = threading.Thread(target=ask_to_rewind, args=(g.admin_url, g.admin_headers, then))
            asking.start()
            time.sleep(delay)
            g.kill()
            asking.join()
            g.start()
            lab.send(g, [str(new)])
            g.wait_until(lambda: str(new) in lab.got(s, "two"), what="what is new at the other trigger")  # noqa: B023
            g.wait_until(lambda: str(new) in lab.got(s, "one"), what="what is new")  # noqa: B023
            g.wait_until(g.drained)
            got = {*lab.got(s, "one")} - {str(new)}
            assert got in (set(), expected), f"after {delay} s"
            expected.add(str(new))
            new += 1
        g.wait_until(lambda: lab.run(g, "rewind", "one", "--to", then, "--dry-run")["count"] == len(expected))
        s.requests.clear()
        lab.run(g, "rewind", "one", "--to", then, "--yes")
        g.wait_until(lambda: {*lab.got(s, "one")} == expected, what="everything since that time")
