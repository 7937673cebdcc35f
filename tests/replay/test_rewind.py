"""`tidegate rewind`: a trigger goes back to a time."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from gateway_log.reader import LogReader
from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from tests.ledger import free_port
from tests.replay import lab
from tests.replay.rewinding import ask_to_rewind

pytestmark = pytest.mark.usefixtures("processes")


@pytest.mark.spec("AGAIN-14", "AGAIN-15")
def test_everything_since_then_comes_again(tmp_path: Path) -> None:
    with Subscriber() as s, GatewayProcess(lab.config(s), tmp_path) as g:
        lab.send(g, lab.ids(10))
        then = lab.now(g)
        lab.send(g, lab.ids(20, 10))
        lab.send(g, lab.ids(5, 50), "t.b")
        s.wait_for(30 + 35)
        g.wait_until(g.drained)
        s.requests.clear()
        shown = lab.run(g, "rewind", "one", "--to", then, "--dry-run")
        assert (shown["count"], shown["types"]) == (20, {"t.a": 20})
        assert "20 events would be sent again: if you mean that, add --yes" in lab.refused(
            g, "rewind", "one", "--to", then
        )
        assert not s.requests
        assert lab.run(g, "rewind", "one", "--to", then, "--yes")["count"] == 20
        s.wait_for(20)
        lab.send(g, lab.ids(1, 90))
        s.wait_for(22)
        assert lab.got(s, "one") == dict.fromkeys([*lab.ids(20, 10), "90"], 1)
        assert lab.got(s, "two") == {"90": 1}
        g.wait_until(g.drained)
        s.requests.clear()
        assert lab.run(g, "rewind", "one", "--to", then, "--yes")["count"] == 21
        g.kill()
        g.start()
        s.wait_for(21)
        assert set(lab.got(s, "one")) == {*lab.ids(20, 10), "90"}
        assert lab.got(s, "two") == {}
        assert "in the future" in lab.refused(g, "rewind", "one", "--to", "2999-01-01T00:00:00Z", "--yes")
        assert "no trigger 'x'" in lab.refused(g, "rewind", "x", "--to", "1h", "--yes")


@pytest.mark.spec("AGAIN-14")
def test_what_was_not_settled_before_that_time_is_not_lost(tmp_path: Path) -> None:
    """Events wait at a subscriber that fails, from before the time; the trigger goes back to a later one."""
    well = threading.Event()
    with (
        Subscriber(decide=lambda r: 202 if well.is_set() or int(r.headers["ce-id"]) >= 3 else 503) as s,
        GatewayProcess(lab.config(s, one="delivery: {retry: 1000, backoff_max_s: 0.3}"), tmp_path) as g,
    ):
        lab.send(g, lab.ids(6))
        g.wait_until(lambda: {"3", "4", "5"} <= {*lab.got(s, "one")}, what="the first attempts")
        then = lab.now(g)
        lab.send(g, lab.ids(4, 6))
        g.wait_until(lambda: {"9"} <= {*lab.got(s, "one")}, what="the others")
        g.wait_until(lambda: lab.run(g, "rewind", "one", "--to", then, "--dry-run")["count"] == 4, what="the answers")
        lab.run(g, "rewind", "one", "--to", then, "--yes")
        well.set()
        g.wait_until(lambda: g.status()["triggers"][0]["lag"] == 0, what="everything")
        got = lab.got(s, "one")
        assert set(got) == set(lab.ids(10))
        assert [got[n] for n in lab.ids(3, 3)] == [1, 1, 1], "settled before that time: not again"
        assert [got[n] for n in lab.ids(4, 6)] == [2, 2, 2, 2]


def several(folder: Path, subscriber: Subscriber) -> GatewayProcess:
    config = lab.config(subscriber, port=free_port(), one="delivery: {retry: 10, backoff_max_s: 0.1}")
    return GatewayProcess(config, folder, {"TIDEGATE_WORKERS": "2"})


@pytest.mark.spec("AGAIN-21")
def test_several_workers_go_back_together(tmp_path: Path) -> None:
    with Subscriber() as s, several(tmp_path, s) as g:
        lab.send_to_all(g, lab.ids(10))
        then = lab.now(g)
        lab.send_to_all(g, lab.ids(30, 10))
        s.wait_for(80)
        g.wait_until(g.drained)
        assert lab.shards(g, lab.ids(40)) == {"0", "1"}
        s.requests.clear()
        g.wait_until(lambda: lab.run(g, "rewind", "one", "--to", then, "--dry-run")["count"] == 30, what="cursors")
        assert lab.run(g, "rewind", "one", "--to", then, "--yes")["count"] == 30
        s.wait_for(30)
        lab.send_to_all(g, lab.ids(10, 90))
        s.wait_for(50)
        g.wait_until(g.drained)
        assert lab.got(s, "one") == dict.fromkeys([*lab.ids(30, 10), *lab.ids(10, 90)], 1)
        assert lab.got(s, "two") == dict.fromkeys(lab.ids(10, 90), 1)


@pytest.mark.spec("AGAIN-22")
@pytest.mark.parametrize("delays", [(0.05, 0.15), pytest.param([n * 0.02 for n in range(16)], marks=pytest.mark.full)])
def test_killed_in_a_rewind_all_workers_have_gone_back_or_none_has(tmp_path: Path, delays: Sequence[float]) -> None:
    with Subscriber() as s, several(tmp_path, s) as g:
        lab.send_to_all(g, lab.ids(10))
        then = lab.now(g)
        lab.send_to_all(g, lab.ids(30, 10))
        s.wait_for(80)
        g.wait_until(g.drained)
        for delay in delays:
            g.wait_until(lambda: settled_on_disk(g, "one"), what="everything")
            s.requests.clear()
            asking = threading.Thread(target=ask_to_rewind, args=(g.admin_url, g.admin_headers, then))
            asking.start()
            time.sleep(delay)
            g.kill()
            asking.join()
            g.start()
            g.wait_until(lambda: settled_on_disk(g, "one"), what="everything again")
            assert set(lab.got(s, "one")) in (set(), set(lab.ids(30, 10))), f"after {delay} s"
        s.requests.clear()
        assert lab.run(g, "rewind", "one", "--to", then, "--yes")["count"] == 30
        s.wait_for(30)
        assert set(lab.got(s, "one")) == set(lab.ids(30, 10))
        assert not lab.got(s, "two")


@pytest.mark.full
@pytest.mark.spec("AGAIN-22")
@pytest.mark.parametrize("delay", [0.0, 0.03, 0.06, 0.1, 0.15])
def test_a_worker_that_is_killed_in_a_rewind_goes_back_with_the_others(tmp_path: Path, delay: float) -> None:
    """The rewind waits for the worker that takes its place, or says that it comes later."""
    with Subscriber() as s, several(tmp_path, s) as g:
        lab.send_to_all(g, lab.ids(10))
        then = lab.now(g)
        lab.send_to_all(g, lab.ids(30, 10))
        s.wait_for(80)
        g.wait_until(lambda: settled_on_disk(g, "one"), what="everything")
        s.requests.clear()
        second = next(p["pid"] for p in g.status()["processes"] if p["worker"] == 1)
        asking = threading.Thread(target=ask_to_rewind, args=(g.admin_url, g.admin_headers, then))
        asking.start()
        time.sleep(delay)
        os.kill(second, signal.SIGKILL)
        asking.join()
        s.wait_for(30)
        g.wait_until(lambda: set(lab.got(s, "one")) == set(lab.ids(30, 10)), what="all of them")
        g.wait_until(lambda: settled_on_disk(g, "one"), what="everything again")
        assert not list((g.data_dir / "log" / "default" / "rewinds").iterdir())
        assert not lab.got(s, "two")


def settled_on_disk(gateway: GatewayProcess, name: str) -> bool:
    """Whether a kill would make no event of a trigger be redelivered."""
    with LogReader(gateway.data_dir / "log" / "default") as reader:
        places = {shard: reader.place(shard, name) for shard in reader.shards()}
        return all(p.next == reader.bounds(shard)[1] and not p.pending for shard, p in places.items())
