"""The source `schedule`: planned times, DST, missed runs, restarts and set clocks, in simulated time."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import pytest
from gateway_cloudevents import plugin as cloudevents_plugin
from gateway_schedule import plugin as schedule_plugin
from gateway_schedule.config import ScheduleConfig
from gateway_testing import FakeClock
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway_core.config.registry import Registry
from gateway_core.contract.component import BuildContext, SourceRef
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.errors import Refused, StartError, StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Accepted
from tests.budget import examples

pytestmark = pytest.mark.anyio

EVENT = {"type": "report.due", "data": {"kind": "daily"}}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


class Taker:
    """An intake: `says` is what it answers, None for accepted."""

    stores = True
    admissions: Sequence[Any] = ()

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.at: list[float] = []
        self.says: BaseException | None = None
        self.clock: FakeClock | None = None

    def accept(self, events: Sequence[Event], done: Accepted) -> None:
        assert self.clock is not None
        if self.says is None:
            self.events += events
            self.at += [self.clock.now_ns() / 1e9] * len(events)
        done(self.says)

    @property
    def ids(self) -> list[str]:
        return [event.attributes["id"].partition("/")[2] for event in self.events]


class World:
    def __init__(self, clock: FakeClock, source: Any) -> None:
        self.clock, self.source = clock, source

    async def passes(self, seconds: float) -> None:
        """Time goes by, timer by timer."""
        end = self.clock.monotonic() + seconds
        with anyio.fail_after(60):
            while True:
                await _quiet()
                wait = self.clock.next_timer()
                if wait is None or self.clock.monotonic() + wait > end:
                    break
                self.clock.advance(wait)
            self.clock.advance(max(0.0, end - self.clock.monotonic()))
            await _quiet()


async def _quiet() -> None:
    """Lets tasks run, and those that write files in threads."""
    await anyio.wait_all_tasks_blocked()
    while anyio.to_thread.current_default_thread_limiter().borrowed_tokens:  # noqa: ASYNC110
        await anyio.sleep(0.0005)
    await anyio.wait_all_tasks_blocked()


@asynccontextmanager
async def scheduled(folder: Path, taker: Taker, clock: FakeClock, **options: Any) -> AsyncIterator[World]:
    registry = Registry()
    registry.add("schedule", schedule_plugin)
    registry.add("ce", cloudevents_plugin)
    context = BuildContext("brokers.default.ingress[0]", folder, clock, registry)
    source = context.build(SourceRef("schedule", {"name": "daily", "event": EVENT, **options}))
    taker.clock = clock
    async with anyio.create_task_group() as tasks:
        await source.start(taker, tasks)
        try:
            yield World(clock, source)
        finally:
            await source.stop()


@pytest.mark.spec("SCHED-01")
@pytest.mark.slow
async def test_a_run_has_its_event_at_its_time(tmp_path: Path) -> None:
    taker, clock = Taker(), FakeClock(at("2026-11-27T10:00:00+00:00"))
    event = {**EVENT, "subject": "s", "extensions": {"team": "a"}}
    async with scheduled(tmp_path, taker, clock, cron="30 3 * * *", time_zone="Europe/Berlin", event=event) as world:
        await world.passes(2 * 86_400)
        assert world.source.info()["next"][0] == "2026-11-30T03:30:00+01:00"
        assert len(world.source.info()["next"]) == 10
    assert taker.ids == ["2026-11-28T02:30:00Z", "2026-11-29T02:30:00Z"]
    assert all(0 <= made - at(id_) < 0.1 for made, id_ in zip(taker.at, taker.ids, strict=True))
    assert taker.events[0].attributes == {
        "specversion": "1.0",
        "id": "daily/2026-11-28T02:30:00Z",
        "source": "/schedules/daily",
        "type": "report.due",
        "subject": "s",
        "time": "2026-11-28T02:30:00Z",
        "datacontenttype": "application/json",
        "team": "a",
    }
    assert taker.events[0].data == b'{"kind":"daily"}'


@pytest.mark.spec("SCHED-01")
async def test_a_text_is_data_too(tmp_path: Path) -> None:
    taker, clock = Taker(), FakeClock(at("2026-11-27T10:00:00+00:00"))
    event = {"type": "t", "datacontenttype": "text/plain", "data": "grüß"}
    async with scheduled(tmp_path, taker, clock, every=60, event=event) as world:
        await world.passes(60)
    assert taker.events[0].data == "grüß".encode()


def runs(cron: str | None, begin: str, end: str, every: int | None = None, zone: str = "Europe/Berlin") -> list[str]:
    options = ScheduleConfig.model_validate(
        {"name": "n", "cron": cron, "every": every, "time_zone": zone, "event": {"type": "t"}}
    )
    found, now, following = [], int(at(begin)), options.following()
    while (run := following(now)) is not None and run <= at(end):
        found.append(datetime.fromtimestamp(run, ZoneInfo(zone)).isoformat())
        now = run
    return found


SPRING = ("2026-03-28T12:00+01:00", "2026-03-30T12:00+02:00")
AUTUMN = ("2026-10-24T12:00+02:00", "2026-10-26T12:00+01:00")


@pytest.mark.spec("SCHED-02")
@pytest.mark.parametrize(
    ("cron", "days", "expected"),
    [
        ("30 2 * * *", SPRING, ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]),
        ("0,30 2 * * *", SPRING, [f"2026-03-{run}:00+02:00" for run in ("29T03:00", "30T02:00", "30T02:30")]),
        ("30 2 * * *", AUTUMN, ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]),
    ],
)  # fmt: skip
def test_a_fixed_time_runs_once_each_day(cron: str, days: tuple[str, str], expected: list[str]) -> None:
    assert runs(cron, *days) == expected


@pytest.mark.spec("SCHED-02")
def test_elapsed_time_goes_on_over_changes() -> None:
    for days in (SPRING, AUTUMN):
        found = [at(run) for run in runs("*/30 * * * *", *days)]
        assert {b - a for a, b in itertools.pairwise(found)} == {1800.0}
        assert len(found) == (at(days[1]) - at(days[0])) // 1800
    assert runs(None, "2026-03-28T12:00+01:00", "2026-03-30T12:00+02:00", every=86_400) == [
        "2026-03-29T00:00:00+01:00",
        "2026-03-30T01:00:00+02:00",
    ]
    assert runs(None, "2026-03-28T12:10+05:30", "2026-03-28T13:10+05:30", every=1800, zone="Asia/Kolkata") == [
        "2026-03-28T12:30:00+05:30",
        "2026-03-28T13:00:00+05:30",
    ]


ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Santiago"]


@pytest.mark.spec("SCHED-02")
@given(
    st.sampled_from(ZONES),
    st.sampled_from(["*/15 * * * *", "30 * * * *", "30 2 * * *", "0,45 0-3 * * *", "0 */2 * * SUN", "15 1 1-7 * *"]),
    st.integers(int(at("2026-01-01T00:00+00:00")), int(at("2027-12-31T00:00+00:00"))),
    st.integers(0, 50),
)
@examples(150)
@pytest.mark.slow
def test_runs_only_grow_and_do_not_depend_on_where_they_are_counted_from(
    zone: str, cron: str, begin: int, skipped: int
) -> None:
    """So a restart plans what the run before it would have."""
    following = ScheduleConfig(name="n", cron=cron, time_zone=zone, event={"type": "t"}).following()  # type: ignore[arg-type]
    found, now = [], begin
    for _ in range(60):
        run = following(now)
        assert run is not None
        assert run > now
        found.append(now := run)
    for other in (found[skipped], found[skipped + 1] - 1, (found[skipped] + found[skipped + 1]) // 2):
        assert following(other) == found[skipped + 1]


@pytest.mark.spec("SCHED-03")
@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("skip", []),
        ("last", ["2026-11-27T14:00:00Z"]),
        ("all", [f"2026-11-27T{hour}:00:00Z" for hour in (12, 13, 14)]),
    ],
)
async def test_what_was_missed_while_no_gateway_ran(missed: str, expected: list[str], tmp_path: Path) -> None:
    taker, clock = Taker(), FakeClock(at("2026-11-27T10:30:00+00:00"))
    async with scheduled(tmp_path, taker, clock, cron="0 * * * *", missed=missed) as world:
        await world.passes(3600)
        assert taker.ids == ["2026-11-27T11:00:00Z"]
    clock.advance(3 * 3600)
    async with scheduled(tmp_path, taker, clock, cron="0 * * * *", missed=missed) as world:
        await world.passes(3600)
    assert taker.ids == ["2026-11-27T11:00:00Z", *expected, "2026-11-27T15:00:00Z"]


@pytest.mark.spec("SCHED-03")
async def test_a_restart_of_some_seconds_misses_nothing(tmp_path: Path) -> None:
    taker, clock = Taker(), FakeClock(at("2026-11-27T10:59:50+00:00"))
    async with scheduled(tmp_path, taker, clock, cron="0 * * * *", missed="skip"):
        await _quiet()
    clock.advance(20)
    async with scheduled(tmp_path, taker, clock, cron="0 * * * *", missed="skip"):
        await _quiet()
    assert taker.ids == ["2026-11-27T11:00:00Z"]


@pytest.mark.spec("SCHED-03")
@pytest.mark.slow
async def test_a_clock_that_is_set_back_repeats_nothing_and_one_set_forward_misses(tmp_path: Path) -> None:
    taker, clock = Taker(), FakeClock(at("2026-11-27T10:30:00+00:00"))
    async with scheduled(tmp_path, taker, clock, cron="0 * * * *", missed="skip") as world:
        await world.passes(3600)
        clock.set_by(-7200)  # 09:30
        await world.passes(2.4 * 3600)  # 11:54
        assert taker.ids == ["2026-11-27T11:00:00Z"]
        await world.passes(360)
        assert taker.ids == ["2026-11-27T11:00:00Z", "2026-11-27T12:00:00Z"]
        clock.set_by(3 * 3600)  # 15:00
        await world.passes(2 * 3600)
    assert taker.ids[2:] == ["2026-11-27T15:00:00Z", "2026-11-27T16:00:00Z", "2026-11-27T17:00:00Z"]


@pytest.mark.spec("SCHED-03")
async def test_years_of_missed_runs_cost_little(tmp_path: Path) -> None:
    taker, clock = Taker(), FakeClock(at("2020-01-01T00:00:00+00:00"))
    async with scheduled(tmp_path, taker, clock, cron="* * * * *"):
        await _quiet()
    clock.advance(6 * 365 * 86_400 + 5)
    async with scheduled(tmp_path, taker, clock, cron="* * * * *"):
        with anyio.fail_after(5):
            await _quiet()
    assert len(taker.ids) == 1


@pytest.mark.spec("SCHED-04")
@pytest.mark.slow
async def test_a_run_that_can_not_be_stored_waits_and_one_that_is_rejected_does_not(tmp_path: Path) -> None:
    taker, clock = Taker(), FakeClock(at("2026-11-27T10:59:00+00:00"))
    async with scheduled(tmp_path, taker, clock, cron="* * * * *", missed="all") as world:
        taker.says = StorageError("disk full")
        await world.passes(200)
        assert taker.ids == []
        assert "disk full" in world.source.info()["error"]
        taker.says = None
        await world.passes(60)
        assert taker.ids == [f"2026-11-27T11:0{minute}:00Z" for minute in range(4)]
        assert world.source.info()["error"] is None
        taker.says = Refused("not from here", status=403)
        await world.passes(60)
        taker.says = None
        await world.passes(60)
    assert taker.ids[4:] == ["2026-11-27T11:05:00Z"]


@pytest.mark.spec("SCHED-05")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cron": "61 * * * *"}, "bad minute"),
        ({"cron": "* * *"}, "number of fields"),
        ({"cron": "0 0 31 2 *"}, "day-of-month"),
        ({"cron": "0 0 * * *", "every": 5}, "set one of"),
        ({}, "set one of"),
        ({"every": 0}, "greater than or equal"),
        ({"every": 60, "time_zone": "Europe/Berlni"}, "Europe/Berlin"),
        ({"every": 60, "event": {"type": "t", "extensions": {"id": "x"}}}, "no extension"),
        ({"every": 60, "event": {"type": "t", "datacontenttype": "text/plain", "data": {}}}, "must be a text"),
    ],
)
def test_what_can_not_work_is_a_fault(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        ScheduleConfig.model_validate({"name": "n", "event": {"type": "t"}, **options})


@pytest.mark.spec("SCHED-05")
async def test_a_template_that_makes_no_event_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="source"):
        async with scheduled(tmp_path, Taker(), FakeClock(), every=60, event={"type": "t", "source": "https://x y/"}):
            pass


@pytest.mark.spec("SCHED-05")
def test_the_outlook_has_the_next_ten_runs() -> None:
    options = ScheduleConfig(name="n", cron="0 9 * * MON-FRI", time_zone="Europe/Berlin", event={"type": "t"})  # type: ignore[arg-type]
    (line,) = options.outlook(at("2026-11-27T12:00:00+00:00"))
    assert line.startswith("schedule n runs at 2026-11-30T09:00:00+01:00, 2026-12-01T09:00:00+01:00, ")
    assert line.count("T09:00:00+01:00") == 10


@pytest.mark.spec("SCHED-06")
async def test_its_name_is_durable_and_alone(tmp_path: Path) -> None:
    registry = Registry()
    registry.add("schedule", schedule_plugin)
    taker, clock = Taker(), FakeClock(at("2026-11-27T10:30:00+00:00"))
    async with scheduled(tmp_path, taker, clock, every=60):
        await _quiet()
    (durable,) = registry.durable_names
    options = ScheduleConfig(name="daily", every=60, event={"type": "t"})  # type: ignore[arg-type]
    refs = [SourceRef("schedule", {}, options), SourceRef("schedule", {}, options)]
    config = GatewayConfig.model_validate({"brokers": {"default": {"ingress": refs}}})
    assert list(registry.shared_names(config))
    name, _ = durable.names(config, ())
    assert (tmp_path / "schedule/daily.json").exists()
    assert durable.remove is not None
    durable.remove(name, config, tmp_path)
    assert not (tmp_path / "schedule/daily.json").exists()


@pytest.mark.spec("SCHED-04")
async def test_a_remembered_run_that_can_not_be_read_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "schedule").mkdir()
    (tmp_path / "schedule/daily.json").write_text("{")
    with pytest.raises(ExceptionGroup) as found:
        async with scheduled(tmp_path, Taker(), FakeClock(), every=60):
            pass
    (error,) = found.value.exceptions
    assert isinstance(error, StartError)
    assert "daily.json" in str(error)
