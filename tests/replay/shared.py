"""What a replay does with any channel."""

from __future__ import annotations

from pathlib import Path

from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from tests.replay import lab


def past_events_go_to_one_trigger(folder: Path, kind: str, options: str) -> None:
    """Fails unless a replay sends the events of its time to its trigger alone, over a kill; and unless a rewind is
    refused, which this channel does not offer."""
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
        assert "can't set a trigger back" in lab.refused(g, "rewind", "one", "--to", begin, "--yes")
