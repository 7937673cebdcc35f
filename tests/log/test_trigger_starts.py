"""Where a new trigger begins: at a time, some time ago; and what it says if the log no longer goes back so far."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gateway_testing import FakeClock, Subscriber
from gateway_testing.process import GatewayProcess

from gateway_core.contract.condition import Condition
from gateway_core.contract.event import Event
from gateway_core.contract.filters import match_all
from gateway_core.contract.start_position import LATEST, StartPosition
from gateway_core.pipeline.broker import ReadingTrigger
from tests.command_line import tidegate
from tests.explain.test_why import send

BROKER = "brokers: {default: {ingress: [http: {listen: '127.0.0.1:0'}]}}\ntriggers:\n"


def trigger_of(gateway: GatewayProcess, name: str) -> Mapping[str, Any]:
    return next((t for t in gateway.status()["triggers"] if t["name"] == name), {})


@pytest.mark.usefixtures("processes")
@pytest.mark.spec("AGAIN-01", "AGAIN-02")
def test_a_trigger_begins_where_its_config_says_once(tmp_path: Path) -> None:
    """Each start, at a reload; then a restart, and another `start`, move nothing."""
    with Subscriber() as s, GatewayProcess(BROKER + f"  first: {{subscriber: '{s.url}first'}}\n", tmp_path) as g:
        send(g.ingress(), "1")
        send(g.ingress(), "2")
        s.wait_for(2)
        text = g.config.read_text()
        for name, start in {
            "earliest": "earliest",
            "ago": "{ago: 1h}",
            "since": "{time: '1999-01-01T00:00:00Z'}",
            "later": "{time: '2999-01-01T00:00:00Z'}",
            "latest": "latest",
        }.items():
            text += f"  {name}: {{subscriber: '{s.url}{name}', start: {start}}}\n"
        g.config.write_text(text)
        g.wait_until(lambda: trigger_of(g, "latest").get("ready"), what="the reload")
        send(g.ingress(), "3")
        s.wait_for(2 + 1 + 3 * 3 + 2)
        got = sorted((r.path[1:], r.headers["ce-id"]) for r in s.requests)
        whole = [(name, id) for name in ("ago", "earliest", "first", "since") for id in "123"]
        assert got == sorted([*whole, ("later", "3"), ("latest", "3")])
        assert {t["condition"] for t in g.status()["triggers"]} == {"Delivering"}
        s.requests.clear()
        g.config.write_text(text.replace("start: latest", "start: earliest").replace("2999", "1999"))
        g.stop()
        g.start()
        send(g.ingress(), "4")
        s.wait_for(6)
        assert {r.headers["ce-id"] for r in s.requests} == {"4"}


def log_events(log: Any, clock: FakeClock) -> list[Event]:
    events: list[Event] = log.events(3)
    for event in events:
        event.received_ns = clock.now_ns()
    return events


@pytest.mark.anyio
@pytest.mark.spec("AGAIN-03")
async def test_a_start_that_retention_has_passed_says_so_also_after_a_restart(log: Any) -> None:
    clock = FakeClock()
    channel = await log.open(clock=clock, retention={"max_age_s": 600.0})
    began = clock.now_ns()
    await log.append(channel, log_events(log, clock))
    clock.advance(610)
    await log.append(channel, log_events(log, clock))
    clock.advance(20)
    await log.wait(lambda: channel.info()["first"] == 4)
    late, exact = log.Subscriber(start=StartPosition.at_time(began)), log.Subscriber()
    exact.start = StartPosition.at_time(began + 610 * 10**9)
    for name, s in {"late": late, "exact": exact}.items():
        s.feed = channel.attach(name, s.filter, s, start=s.start)
    await log.wait(lambda: late.got == exact.got == [4, 5, 6])
    assert "had kept nothing before" in late.feed.started_late
    assert exact.feed.started_late is None
    said = late.feed.started_late
    await channel.joined("late")
    await log.stop(channel)
    again = log.Subscriber(start=StartPosition.at_time(began + 10**9))
    await log.open({"late": again}, clock=clock)
    assert again.feed.started_late == said


@pytest.mark.anyio
@pytest.mark.spec("AGAIN-25")
async def test_a_sink_that_reads_the_log_itself_says_so_too(log: Any) -> None:
    clock = FakeClock()
    channel = await log.open(clock=clock, retention={"max_age_s": 600.0})
    began = clock.now_ns()
    await log.append(channel, log_events(log, clock))
    clock.advance(610)
    await log.append(channel, log_events(log, clock))
    clock.advance(20)
    await log.wait(lambda: channel.info()["first"] == 4)
    late = channel.attach_reader("late", match_all(), start=StartPosition.at_time(began))
    exact = channel.attach_reader("exact", match_all(), start=StartPosition.at_time(began + 610 * 10**9))
    assert late.start == exact.start == {"0": 4}
    assert "had kept nothing before" in late.started_late
    assert exact.started_late is None
    await log.stop(channel)
    again = await log.open(clock=clock)
    assert again.attach_reader("late", match_all(), start=StartPosition.at_time(1)).started_late == late.started_late
    broker: Any = SimpleNamespace(taking=True)
    reads: Any = SimpleNamespace(state=lambda: {"state": "running"})
    trigger = ReadingTrigger("late", broker, match_all(), reads, LATEST, {})
    trigger.feed = late
    assert trigger.condition() == Condition(True, late.started_late, "StartedLate")


@pytest.mark.spec("AGAIN-04")
@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("{time: yesterday}", "'yesterday' is not a time (RFC 3339): write it with its zone"),
        ("{time: '2026-01-01T00:00:00'}", "has no time zone: write it with its zone, as in 2026-11-28T08:00:00Z"),
        ("{ago: 2 hours}", "'2 hours' is not a duration: write a number with its unit, as in 90s"),
        ("{ago: 0s}", "longer than a hundred years, or nothing"),
        ("{}", "name `time` or `ago`, one of them"),
        ("{ago: 1h, time: '2026-01-01T00:00:00Z'}", "name `time` or `ago`, one of them"),
        ("{since: 1h}", "unknown key `since`"),
        ("newest", "`latest`"),
    ],
)
def test_a_wrong_start_is_a_fault_of_the_config(tmp_path: Path, start: str, said: str) -> None:
    config = tmp_path / "tidegate.yaml"
    config.write_text(BROKER + f"  t: {{subscriber: 'http://127.0.0.1:9/', start: {start}}}\n")
    ran = tidegate("check", config)
    assert (ran.returncode, said in ran.stdout + ran.stderr) == (1, True), ran.stdout + ran.stderr


def test_a_start_in_the_future_is_warned_of(tmp_path: Path) -> None:
    config = tmp_path / "tidegate.yaml"
    config.write_text(BROKER + "  t: {subscriber: 'http://127.0.0.1:9/', start: {time: '2999-01-01T00:00:00Z'}}\n")
    ran = tidegate("check", config)
    assert "`start` is in the future" in ran.stdout + ran.stderr
