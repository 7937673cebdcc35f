"""Triggers whose events are due later: the log keeps them, delivers them when they are due, and loses none."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from gateway_log import plugin as log_plugin
from gateway_log.backup import back_up
from gateway_log.delay_file import DelayFile, Waiting
from gateway_log.delays import GATHER_S
from gateway_log.repair import repair
from gateway_log.rows import Row
from gateway_testing import ScriptedSink
from pydantic import ValidationError

from gateway_core.config.registry import Registry
from gateway_core.contract.capabilities import Delaying, TracksDeliveries
from gateway_core.contract.clock import Timer
from gateway_core.contract.config_model import GatewayConfig, TriggerConfig
from gateway_core.contract.durations import YEAR_S
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event, position_of
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.contract.moments import time_ns_of
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests.delivery.gateway_rig import Hurried, Parts, change, until
from tests.in_process import started

pytestmark = pytest.mark.anyio
SECOND = 1_000_000_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Moved(Hurried):
    """The time of day can be set; timers run soon."""

    ahead_s = 0.0
    gathers = True

    def now_ns(self) -> int:
        return super().now_ns() + int(self.ahead_s * 1e9)

    def call_later(self, delay_s: float, call: Callable[..., Any], *args: Any) -> Timer:
        if delay_s == GATHER_S and not self.gathers:
            call(*args)
        return super().call_later(delay_s, call, *args)


class Far(ScriptedSink):
    """Notes when an event is sent."""

    def __init__(self, clock: Moved, **options: Any) -> None:
        super().__init__(address="far:", **options)
        self.clock = clock
        self.at: list[int] = []

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        self.at.append(self.clock.now_ns())
        super().send(event, timeout_s, done)


class World:
    def __init__(self, **options: Any) -> None:
        self.clock = Moved()
        self.parts = Parts(Far(self.clock, **options))
        self.gateway: Gateway

    @property
    def sent(self) -> list[str]:
        return [event.attributes["id"] for event in self.parts.far.sent]

    @property
    def status(self) -> Any:
        return self.gateway.status().triggers[0]

    @property
    def feed(self) -> Any:
        return self.gateway.topology.triggers["t"].feed

    def config_of(self, log: dict[str, Any] | None = None, **trigger: Any) -> GatewayConfig:
        return GatewayConfig.model_validate(
            {
                "brokers": {
                    "default": {"ingress": ["tap"], "dead_letter": "letters", "channel": {"log": log or {}}},
                },
                "triggers": {"t": {"subscriber": "far", **trigger}},
            }
        )

    @asynccontextmanager
    async def runs(self, folder: Path, log: dict[str, Any] | None = None, **trigger: Any) -> AsyncIterator[None]:
        registry = Registry()
        registry.add("parts", self.parts)
        registry.add("log", log_plugin)
        config = self.config_of(log, **trigger)
        self.gateway = Gateway(config, Settings(data_dir=folder, admin="off"), registry, self.clock)
        async with started(self.gateway):
            yield

    async def put(self, *events: Event) -> None:
        answers = self.parts.tap.put(*events)
        await until(lambda: answers)
        assert answers == [None]


def event(n: int, **attributes: Any) -> Event:
    return Event({"specversion": "1.0", "id": str(n), "source": "/t", "type": "t", **attributes}, b"x" * 50)


@pytest.mark.spec("DELAY-01")
async def test_events_wait_and_are_delivered_when_they_are_due(tmp_path: Path) -> None:
    world = World()
    async with world.runs(tmp_path, delay="PT10M"):
        began = world.clock.now_ns()
        await world.put(*(event(n) for n in range(300)))
        await until(lambda: world.status.delayed == 300)
        assert (world.sent, world.status.lag, world.status.waiting) == ([], 0, 0)
        world.clock.ahead_s += 599
        await world.put(event(300))
        assert world.sent == []
        world.clock.ahead_s += 1.5
        await until(lambda: world.status.delivered == 300)
        assert set(world.sent) == {str(n) for n in range(300)}
        assert min(world.parts.far.at) >= began + 600 * SECOND
        await until(lambda: world.status.delayed == 1)
    assert len(world.sent) == 300


@pytest.mark.spec("DELAY-01")
async def test_an_event_says_itself_when_it_is_due(tmp_path: Path) -> None:
    world = World()
    async with world.runs(tmp_path, deliver_at={"attribute": "deliverat"}, delay=50):
        now = datetime.fromtimestamp(world.clock.now_ns() / 1e9, UTC)
        hour = (now + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
        await world.put(
            event(1, deliverat=hour),
            event(2, deliverat="PT20M"),
            event(3),
            event(4, deliverat="2020-01-01T00:00:00+02:00"),
            event(5, deliverat="PT0S"),
        )
        await until(lambda: sorted(world.sent) == ["4", "5"] and world.status.delayed == 3)
        for ahead_s, expected in ((51, "3"), (1201, "2"), (3601, "1")):
            world.clock.ahead_s = ahead_s
            await until(lambda: len(world.sent) and world.sent[-1] == expected)  # noqa: B023
        assert len(world.sent) == 5


@pytest.mark.spec("DELAY-02")
async def test_what_waits_survives_restarts_and_a_change_of_the_config(tmp_path: Path) -> None:
    world = World()
    async with world.runs(tmp_path, delay=3600):
        await world.put(*(event(n) for n in range(50)))
        await until(lambda: world.status.delayed == 50)
    async with world.runs(tmp_path, delay=3600):
        await until(lambda: world.status.delayed == 50)
        world.clock.ahead_s += 1800
        await world.put(*(event(n) for n in range(50, 60)))
        await until(lambda: world.status.delayed == 60)
    async with world.runs(tmp_path):  # no delay any more: what waits keeps its time, what comes is delivered
        await world.put(event(60))
        await until(lambda: world.sent == ["60"])
        world.clock.ahead_s += 1801
        await until(lambda: world.status.delivered == 51)
        world.clock.ahead_s += 1801
        await until(lambda: world.status.delivered == 61)
        await until(lambda: world.status.delayed == 0)
    async with world.runs(tmp_path):
        await until(lambda: world.status.ready)
    assert Counter(world.sent) == {str(n): 1 for n in range(61)}


@pytest.mark.spec("DELAY-02")
async def test_retention_removes_none_that_waits(tmp_path: Path) -> None:
    world = World()
    log = {"retention": {"max_age_s": 0.001}, "check_interval_s": 0.001}
    async with world.runs(tmp_path, log, delay=86_400):
        await world.put(*(event(n) for n in range(100)))
        await until(lambda: world.status.delayed == 100)
        await until(lambda: world.gateway.status().brokers[0].channel.events == 0)
    async with world.runs(tmp_path, log, delay=86_400):
        world.clock.ahead_s += 86_401
        await until(lambda: world.status.delivered == 100)
    assert Counter(world.sent) == {str(n): 1 for n in range(100)}


@pytest.mark.spec("DELAY-02")
@pytest.mark.slow
async def test_more_wait_than_a_trigger_may_hold(tmp_path: Path) -> None:
    world = World()
    async with world.runs(tmp_path, delay=60):
        for first in range(0, 12_000, 3000):
            await world.put(*(event(n) for n in range(first, first + 3000)))
        await until(lambda: world.status.delayed == 12_000)
        world.clock.ahead_s += 61
        await until(lambda: world.status.delivered == 12_000)
    assert len(set(world.sent)) == 12_000


@pytest.mark.spec("DELAY-02")
async def test_a_failing_event_is_retried_and_goes_to_the_dead_letter(tmp_path: Path) -> None:
    world = World(default=Outcome(False, retry=True, code=503, reason="503"))
    async with world.runs(tmp_path, delay=60, delivery={"retry": 2}):
        await world.put(event(1))
        await until(lambda: world.status.delayed == 1)
        world.clock.ahead_s += 61
        await until(lambda: world.status.dead_lettered == 1)
    world.parts.far.default = DELIVERED
    async with world.runs(tmp_path, delay=60, delivery={"retry": 2}):
        await until(lambda: world.status.ready)
        assert world.status.delayed == 0
    assert world.sent == ["1", "1", "1"]


@pytest.mark.spec("DELAY-03")
async def test_a_clock_that_is_set(tmp_path: Path) -> None:
    world = World()
    async with world.runs(tmp_path, delay=600):
        world.clock.ahead_s = 7200
        await world.put(event(1))
        await until(lambda: world.status.delayed == 1)
        world.clock.ahead_s = 0  # it was wrong: two hours back
        await world.put(event(2))
        world.clock.ahead_s = 601
        await until(lambda: world.sent == ["2"])
        world.clock.ahead_s = 7801
        await until(lambda: world.sent == ["2", "1"])


@pytest.mark.spec("DELAY-04")
@pytest.mark.parametrize("value", ["soon", "2026-11-28T10:00:00", "P1Y", "PT", "P", "2999-01-01T00:00:00Z", "P366D"])
async def test_what_says_no_time_goes_to_the_dead_letter(value: str, tmp_path: Path) -> None:
    world = World()
    async with world.runs(tmp_path, deliver_at={"attribute": "deliverat"}):
        await world.put(event(1, deliverat=value), event(2))
        await until(lambda: world.status.dead_lettered == 1 and world.sent == ["2"])
    (letter,) = world.parts.letters.sent
    assert letter.attributes["tidegatestage"] == "delay"


@pytest.mark.spec("DELAY-04")
@pytest.mark.parametrize("delay", [-1, YEAR_S + 1, "P366D", "10 minutes", "PT"])
def test_a_delay_that_is_none_is_a_fault(delay: Any) -> None:
    with pytest.raises(ValidationError):
        TriggerConfig.model_validate({"subscriber": "far", "delay": delay})


@pytest.mark.spec("DELAY-05")
async def test_people_see_what_waits_and_can_cancel_it_or_deliver_it_now(tmp_path: Path) -> None:
    world = World()
    async with world.runs(tmp_path, delay=3600):
        await world.put(*(event(n) for n in range(10)))
        await until(lambda: world.status.delayed == 10)
        feed = world.feed
        assert isinstance(feed, Delaying)
        assert isinstance(feed, TracksDeliveries)
        assert feed.delivery_state(position_of(0, 3)) == "delayed"
        first = feed.not_due(None, 4)
        assert [one.event.attributes["id"] for one in first] == ["0", "1", "2", "3"]
        assert abs(first[3].due_ns / 1e9 - world.clock.now_ns() / 1e9 - 3600) < 60
        rest = feed.not_due((first[-1].due_ns, first[-1].event.position), 100)
        assert [one.event.attributes["id"] for one in rest] == ["4", "5", "6", "7", "8", "9"]
        assert feed.due_within([60, 3600, 7200]) == [0, 10, 10]
        assert (feed.cancel("5", "/t"), feed.cancel("5", "/t"), feed.cancel("5", "/u")) == (1, 0, 0)
        assert feed.deliver_now("7", "/t") == 1
        await until(lambda: world.sent == ["7"])
        await until(lambda: world.status.delayed == 8)
        assert feed.delivery_state(position_of(0, 8)) == "passed"
        world.clock.ahead_s += 3601
        await until(lambda: world.status.delivered == 9)
    assert Counter(world.sent) == {str(n): 1 for n in range(10) if n != 5}


@pytest.mark.spec("DELAY-10")
async def test_the_status_says_when_the_first_is_due_and_how_late_it_is(tmp_path: Path) -> None:
    world = World(hold=True)
    later = {"deliver_at": {"attribute": "deliverat"}}

    def told() -> tuple[int, float | None]:
        until_ = world.status.delayed_until
        return -1 if until_ is None else (time_ns_of(until_) - began) // SECOND, world.status.delayed_late_s

    async with world.runs(tmp_path, **later):
        began = world.clock.now_ns()
        assert (world.status.delayed_until, world.status.delayed_late_s) == (None, None)
        await world.put(event(1, deliverat="PT2H"), event(2, deliverat="PT1H"), event(3, deliverat="PT3H"))
        await until(lambda: told() == (3600, 0))
        due_ns = world.feed.due_ns(position_of(0, 2))
        assert time_ns_of(world.status.delayed_until) == due_ns
        assert world.feed.cancel("2", "/t") == 1
        await until(lambda: told() == (7200, 0))
        assert (world.feed.due_ns(position_of(0, 2)), world.feed.due_ns(position_of(0, 9))) == (None, None)
    async with world.runs(tmp_path, **later):
        await until(lambda: told() == (7200, 0))
        assert world.feed.deliver_now("3", "/t") == 1
        await until(lambda: "3" in world.sent)
        assert told() == (7200, 0)
        world.parts.far.answer()
        world.clock.ahead_s += 7300
        await until(lambda: "1" in world.sent)
        assert told()[0] == 7200
        assert 100 <= (told()[1] or 0) < 160
        world.parts.far.answer()
        await until(lambda: told() == (-1, None))


@pytest.mark.spec("DELAY-02")
async def test_reloads_while_events_wait_and_are_delivered(tmp_path: Path) -> None:
    world = World()
    async with world.runs(tmp_path, delay=60):
        for round_ in range(8):
            await world.put(*(event(n) for n in range(round_ * 100, round_ * 100 + 100)))
            world.clock.ahead_s += 31
            await change(world.gateway, world.config_of(delay=60, delivery={"retry": round_}))  # a new trigger
        await until(lambda: world.status.delayed + len(set(world.sent)) >= 800)
        world.clock.ahead_s += 120
        await until(lambda: len(set(world.sent)) == 800)
        await until(lambda: world.status.delayed == 0)
    assert world.parts.letters.sent == []


@pytest.mark.spec("DELAY-05")
async def test_a_backup_has_what_waits(tmp_path: Path) -> None:
    world = World()
    async with world.runs(tmp_path / "data", delay=600):
        await world.put(*(event(n) for n in range(20)))
        await until(lambda: world.status.delayed == 20)
        back_up(tmp_path / "data", tmp_path / "backup", lambda *_: None)
        world.clock.ahead_s += 601
        await until(lambda: world.status.delivered == 20)
    world.parts.far.sent.clear()
    async with world.runs(tmp_path / "backup", delay=600):
        await until(lambda: len(set(world.sent)) == 20)
    assert set(world.sent) == {str(n) for n in range(20)}


@pytest.mark.spec("DELAY-02")
async def test_a_damaged_event_is_left_out_and_the_others_are_delivered(tmp_path: Path) -> None:
    world = World()
    async with world.runs(tmp_path, delay=600):
        await world.put(*(event(n) for n in range(5)))
        await until(lambda: world.status.delayed == 5)
    (path,) = (tmp_path / "log/default").glob("delayed-*.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE events SET data = x'00' WHERE sequence = 3")
    async with world.runs(tmp_path, delay=600):
        world.clock.ahead_s += 601
        await until(lambda: world.status.delivered == 4)
        assert world.status.delayed == 1
    assert set(world.sent) == {"0", "1", "3", "4"}


@pytest.mark.spec("DELAY-08")
@pytest.mark.parametrize("later", [{"delay": 600}, {}], ids=["delays still", "delays no more"])
async def test_what_was_kept_before_a_crash_is_not_taken_again_from_the_log(
    tmp_path: Path, later: dict[str, Any]
) -> None:
    world = World()
    async with world.runs(tmp_path, delay=600):
        await world.put(*(event(n) for n in range(5)))
        await until(lambda: world.status.delayed == 5)
    with closing(sqlite3.connect(tmp_path / "log/default/shard-000.db")) as connection, connection:
        assert connection.execute("UPDATE feeds SET place = 1, pending = NULL").rowcount == 1  # not written yet
    world.clock.ahead_s += 601
    async with world.runs(tmp_path, **later):
        await until(lambda: len(world.sent) >= 5 and world.status.delayed == 0 and world.status.lag == 0)
        await world.put(event(5))
        world.clock.ahead_s += 601
        await until(lambda: "5" in world.sent)
    assert Counter(world.sent) == {str(n): 1 for n in range(6)}


@pytest.mark.spec("DELAY-05")
async def test_what_a_start_keeps_before_it_counts_is_counted_once(tmp_path: Path) -> None:
    world = World()
    async with world.runs(tmp_path, delay=600):
        await world.put(*(event(n) for n in range(5)))
        await until(lambda: world.status.delayed == 5)
    # as a crash leaves it that came before any of them was kept
    with closing(sqlite3.connect(tmp_path / "log/default/delayed-000.db")) as connection, connection:
        assert connection.execute("DELETE FROM events WHERE sequence > 1").rowcount == 4
    with closing(sqlite3.connect(tmp_path / "log/default/shard-000.db")) as connection, connection:
        assert connection.execute("UPDATE feeds SET place = 1, pending = NULL").rowcount == 1
    world.clock.gathers = False  # so what the log offers at the start is kept before the files are counted
    async with world.runs(tmp_path, delay=600):
        await world.put(event(5))
        await until(lambda: world.status.lag == 0)
        assert len(world.feed.not_due(None, 100)) == 6
        assert world.status.delayed == 6


@pytest.mark.spec("DELAY-02", "DELAY-07")
async def test_a_file_that_is_damaged_stops_the_start_with_a_remedy(tmp_path: Path) -> None:
    world = World()
    async with world.runs(tmp_path, delay=3600):
        await world.put(event(1))
        await until(lambda: world.status.delayed == 1)
    (file,) = (tmp_path / "log/default").glob("delayed-*.db")
    content = file.read_bytes()
    file.write_bytes(b"no database at all".ljust(100) + content[100:])
    with pytest.raises(StartError, match=r"delayed-000\.db .*`tidegate log repair "):
        async with world.runs(tmp_path, delay=3600):
            pass
    assert list(repair(file.parent))
    async with world.runs(tmp_path, delay=3600):
        world.clock.ahead_s += 3601
        await until(lambda: world.sent == ["1"])


@pytest.mark.slow
@pytest.mark.spec("DELAY-06")
@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.full)])
async def test_many_that_wait_delay_no_start_and_are_not_in_memory(tmp_path: Path, count: int) -> None:
    world = World()
    async with world.runs(tmp_path, delay=3600):
        await world.put(event(1))
        await until(lambda: world.status.delayed == 1)
    (path,) = (tmp_path / "log/default").glob("delayed-*.db")
    file = DelayFile(path, position_of(0, 0))
    due = world.clock.now_ns() + 3600 * SECOND
    for first in range(2, count + 1, 50_000):
        rows = [
            Waiting(Row(n, 1, 0, None, b'{"specversion":"1.0","id":"%d","source":"/t","type":"t"}' % n, b"x"), due + n)
            for n in range(first, min(first + 50_000, count + 1))
        ]
        file.add("t", rows)
    file.close()
    began = time.monotonic()
    async with world.runs(tmp_path, delay=3600):
        print(f"started in {time.monotonic() - began:.2f} s")
        await until(lambda: world.status.delayed == count)
        print(f"counted in {time.monotonic() - began:.2f} s")
        assert world.status.waiting == 0
