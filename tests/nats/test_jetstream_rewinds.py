"""A trigger on the channel `jetstream` goes back to a time: its consumer is made again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from gateway_nats.rewinds import set_back
from gateway_nats.settled_ranges import SettledRanges
from gateway_nats.trim import settled_before
from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError

from tests.nats.conftest import NatsKit, ask
from tests.replay import lab, shared

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(240)]


def options(kit: NatsKit, more: str = "") -> str:
    url = f"nats://127.0.0.1:{kit.server.port}"
    names = f"stream: {kit.name}, subject: {kit.name}, consumer_prefix: {kit.name}"
    return f"servers: '{url}', {names}, ack_wait_s: 2{more}"


@pytest.mark.spec("AGAIN-29")
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_everything_since_then_comes_again(kit: NatsKit, tmp_path: Path, workers: int) -> None:
    shared.a_trigger_goes_back(tmp_path, "jetstream", options(kit), workers)

    async def description(js: JetStreamContext) -> str:
        return str((await js.consumer_info(kit.name, f"{kit.name}_one")).config.description)

    assert ask(kit.server.url, description).startswith("began with message 1, set back by rewind ")


@pytest.mark.spec("AGAIN-29")
def test_what_was_not_settled_before_that_time_is_not_lost(kit: NatsKit, tmp_path: Path) -> None:
    shared.what_was_not_settled_is_not_lost(tmp_path, "jetstream", options(kit))


@pytest.mark.spec("AGAIN-30")
@pytest.mark.parametrize("delays", [(0.02, 0.1), pytest.param([n * 0.01 for n in range(16)], marks=pytest.mark.full)])
def test_killed_in_a_rewind_it_has_gone_back_or_not(kit: NatsKit, tmp_path: Path, delays: Sequence[float]) -> None:
    async def settled(js: JetStreamContext) -> bool:
        info = await js.consumer_info(kit.name, f"{kit.name}_one")
        return not info.num_pending and not info.num_ack_pending

    shared.killed_in_a_rewind(tmp_path, "jetstream", options(kit), delays, lambda _: ask(kit.server.url, settled))
    assert not list((tmp_path / "data" / "nats" / "rewinds").iterdir())


class EndsHere(Exception):
    """The gateway is killed."""


class Killed:
    """Ends once a consumer was deleted, before it is made again."""

    def __init__(self, js: JetStreamContext) -> None:
        self._js = js

    def __getattr__(self, name: str) -> Any:
        return getattr(self._js, name)

    async def add_consumer(self, *args: object) -> None:
        raise EndsHere


@pytest.mark.spec("AGAIN-30")
def test_a_decided_rewind_is_done_at_the_next_start(kit: NatsKit, tmp_path: Path) -> None:
    with Subscriber() as s, GatewayProcess(lab.config(s, options(kit), kind="jetstream"), tmp_path) as g:
        lab.send(g, lab.ids(20))
        s.wait_for(40)
        g.wait_until(g.drained)
        assert g.stop() == 0
        s.requests.clear()
        consumer = f"{kit.name}_one"

        async def ends(js: JetStreamContext) -> str:
            with pytest.raises(EndsHere):
                await set_back(cast(JetStreamContext, Killed(js)), g.data_dir, kit.name, consumer, 11)
            with pytest.raises(NotFoundError):
                await js.consumer_info(kit.name, consumer)
            return "gone"

        assert ask(kit.server.url, ends) == "gone"
        for _ in range(2):
            g.start()
            s.wait_for(10)
            g.wait_until(g.drained)
            assert lab.got(s, "one") == dict.fromkeys(lab.ids(10, 10), 1)
            assert not lab.got(s, "two")
            assert g.stop() == 0


@pytest.mark.spec("AGAIN-32")
def test_it_goes_back_for_all_gateways_that_share_it(kit: NatsKit, tmp_path: Path) -> None:
    """One settled all events; the other one is asked for the rewind, and killed. To the first one these are no repeats
    of what it settled."""
    refuses = threading.Event()
    with Subscriber(decide=lambda r: 503 if refuses.is_set() and r.path == "/one" else 202) as s:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        config = lab.config(s, options(kit), "delivery: {retry: 1000, backoff_max_s: 0.3}", kind="jetstream")
        with GatewayProcess(config, tmp_path / "a") as a, GatewayProcess(config, tmp_path / "b") as b:
            assert b.stop() == 0
            lab.send(a, lab.ids(10))
            then = lab.now(a)
            lab.send(a, lab.ids(60, 10))
            s.wait_for(140)
            a.wait_until(a.drained)
            b.start()
            refuses.set()
            s.requests.clear()
            assert lab.run(b, "rewind", "one", "--to", then, "--yes")["count"] == 60
            a.wait_until(lambda: bool(s.requests), what="an attempt")
            b.kill()
            s.requests.clear()
            refuses.clear()
            a.wait_until(lambda: {*lab.got(s, "one")} == {*lab.ids(60, 10)}, 30, "all of them")
            assert not lab.got(s, "two")


@pytest.mark.spec("AGAIN-30")
def test_while_a_consumer_is_made_again_nothing_is_removed(kit: NatsKit, tmp_path: Path) -> None:
    with Subscriber() as s, GatewayProcess(lab.config(s, options(kit), kind="jetstream"), tmp_path) as g:
        lab.send(g, lab.ids(10))
        s.wait_for(20)
        g.wait_until(g.drained)
        assert g.stop() == 0

        async def removable(js: JetStreamContext) -> list[int]:
            needed = [f"{kit.name}_one", f"{kit.name}_two"]
            before = await settled_before(js, kit.name, 0, needed)
            await js.delete_consumer(kit.name, needed[0])
            return [before, await settled_before(js, kit.name, 0, needed)]

        assert ask(kit.server.url, removable) == [11, 0]


def test_ranges_before_a_number() -> None:
    ranges = SettledRanges()
    for number in (1, 2, 3, 7, 8, 20):
        ranges.add(number)
    found = ranges.before(8)
    assert [number for number in range(30) if number in found] == [1, 2, 3, 7]
