"""Kills during a replay, beside live events: a ledger of what arrived where."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import httpx
import pytest
from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from gateway_core.contract.moments import written
from tests.ledger import free_port
from tests.replay import lab

pytestmark = pytest.mark.usefixtures("processes")


class Live:
    """Sends events, one at a time, as long as the block lasts. `accepted` are those that were answered with 202."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.accepted: list[str] = []

    def _run(self) -> None:
        number = 0
        while not self._over.wait(0.005):
            number += 1
            try:
                lab.send(self._gateway, [f"live-{number}"])
            except (httpx.HTTPError, AssertionError, LookupError, OSError):
                continue
            self.accepted.append(f"live-{number}")

    def __enter__(self) -> Live:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.mark.spec("AGAIN-13", "AGAIN-16")
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_every_selected_event_arrives_and_nothing_goes_elsewhere(tmp_path: Path, workers: int) -> None:
    count, kills = 750, 2
    channel = "retention: {max_age_s: 3}, check_interval_s: 0.2"
    with (
        Subscriber() as s,
        GatewayProcess(
            lab.config(s, channel, port=free_port() if workers > 1 else 0), tmp_path, {"TIDEGATE_WORKERS": f"{workers}"}
        ) as g,
    ):
        lab.send(g, lab.ids(count))
        end = lab.now(g)
        s.wait_for(2 * count)
        s.requests.clear()
        with Live(g) as live:
            job = lab.run(g, "replay", "one", "--from", "1h", "--to", end, "--rate", "150", "--mark")
            assert (job["count"], job["to"]) == (count, end)
            for kill in range(kills):
                seen = marked(s)
                g.wait_until(lambda seen=seen: marked(s) >= seen + 150, what=f"progress before kill {kill}")
                g.kill()
                g.start()
            g.wait_until(lambda: lab.run(g, "replay", "status", job["id"])["ended"] is not None, what="the end")
        g.wait_until(g.drained, what="the live events")
        done = lab.run(g, "replay", "status", job["id"])
        assert [done[n] for n in ("state", "delivered", "given_up", "unwanted", "gone", "left")] == [
            "done", count, 0, 0, 0, 0,
        ]  # fmt: skip
        replayed = [r for r in s.requests if "ce-tidegatereplay" in r.headers]
        assert {r.headers["ce-tidegatereplay"] for r in replayed} == {job["id"]}
        assert {r.path for r in replayed} == {"/one"}
        assert {r.headers["ce-id"] for r in replayed} == set(lab.ids(count))
        assert len(replayed) <= count + kills * (150 + 16)  # half a second of progress, and what was under way
        unmarked = [r for r in s.requests if "ce-tidegatereplay" not in r.headers]
        for path in ("/one", "/two"):
            assert set(live.accepted) <= {r.headers["ce-id"] for r in unmarked if r.path == path}
        # the log forgets what the replay needed: it is older than three seconds by far
        g.wait_until(
            lambda: lab.refused_or_empty(g, "replay", "one", "--from", "1h", "--to", written(time.time_ns())),
            what="retention",
        )


def marked(subscriber: Subscriber) -> int:
    return sum("ce-tidegatereplay" in r.headers for r in subscriber.requests)
