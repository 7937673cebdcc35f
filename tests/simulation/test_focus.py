"""What only plans about one rule have: events without an answer, shortages, disks that fail to sync or lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.simulation.focus import LATER, SHARE, focused
from tests.simulation.history import Answered, Arrived, History, Replied, Started, SyncFailed
from tests.simulation.plan import Bridge, Config, Event, Fault, Kafka, Plan, Policy, Send, Trigger
from tests.simulation.search import Hunt, record
from tests.simulation.searching import checked
from tests.simulation.shortages import PLACES
from tests.simulation.story import tell
from tests.simulation.world import run

SENDS = tuple(Send(1 + number / 10, (Event(f"e{number}"),), number % 3) for number in range(20))
CONFIG = (Config((Trigger("t1", policy=Policy(retry=10, backoff_max_s=1.0, timeout_s=0.5)),)),)


def outcomes(history: History, id: str) -> list[int | None]:
    numbers = [a.number for a in history.of(Arrived) if dict(a.headers)["ce-id"] == id]
    return [r.status for r in history.of(Replied) if r.number in numbers]


@pytest.mark.slow
def test_an_event_hangs_while_others_are_answered() -> None:
    history = run(Plan(1, CONFIG, SENDS, (Fault(0.5, "hang", "t1", 3.0, 7),), seconds=10))
    assert outcomes(history, "e8") == [202]
    tries = outcomes(history, "e7")
    assert tries[0] is None
    assert tries[-1] == 202


@pytest.mark.slow
def test_without_descriptors_nothing_is_sent_and_no_try_is_used_up() -> None:
    plan = Plan(
        1, (Config((Trigger("t1", policy=Policy(retry=0)),)),), SENDS, (Fault(0.5, "short", "", 6.0),), seconds=10
    )
    history, broken = checked(plan)
    assert not broken
    arrivals = list(history.of(Arrived))
    assert {a.server for a in arrivals} == {"t1"}
    assert len(arrivals) == len(SENDS)
    assert min(a.at for a in arrivals) > 6.5


def test_memory_is_short_at_one_place_and_then_no_more() -> None:
    place = PLACES.index("gateway_log.channel:_encode")
    history, broken = checked(Plan(1, CONFIG, SENDS, (Fault(1.55, "memory", "", 0.5, place),), seconds=10))
    assert not broken
    statuses = [a.status for a in history.of(Answered)]
    assert statuses[0] == statuses[-1] == 202
    assert 503 in statuses


def test_after_a_failed_sync_nothing_is_accepted_until_a_restart() -> None:
    plan = Plan(1, CONFIG, SENDS, (Fault(1.55, "sync-once", "", 4.0, 1),), seconds=10)
    history, broken = checked(plan)
    assert not broken
    (failed,) = history.of(SyncFailed)
    again = [s.at for s in history.of(Started)][1]
    later = [a.status for a in history.of(Answered) if failed.at < a.at < again]
    assert later
    assert set(later) == {503}


@pytest.mark.slow
def test_a_disk_that_lies_takes_away_what_was_written_meanwhile() -> None:
    faults = (Fault(1.95, "disk-lies", "", 5.0), Fault(2.45, "power", "", 0.5))
    away = Fault(0.5, "refuse", "t1", 4.0)
    gone = 0
    for seed in range(20):  # what survives of writes without a sync is drawn
        history, broken = checked(Plan(seed, CONFIG, SENDS[:15], (away, *faults), seconds=10))
        assert not broken
        accepted = {SENDS[a.send].events[0].id for a in history.of(Answered) if a.status == 202}
        came = {dict(a.headers)["ce-id"] for a in history.of(Arrived)}
        assert accepted - came <= {f"e{number}" for number in range(9, 15)}
        gone += len(accepted - came)
    assert gone


def test_a_hunt_is_recorded_among_the_others(tmp_path: Path) -> None:
    file = tmp_path / "found.toml"
    file.write_text('# Written.\n\n[b]\nseed = 1\ncpu_s = 2.0\npromises = ["x"]\n')
    record(Hunt("a", 7, 7, 1.26, ["y"]), file)
    record(Hunt("b", 3, 3, 1.0, ["z"]), file)
    assert file.read_text() == (
        '# Written.\n\n[a]\nseed = 7\ncpu_s = 1.3\npromises = ["y"]\n\n[b]\nseed = 3\ncpu_s = 1.0\npromises = ["z"]\n'
    )


@pytest.mark.slow
@pytest.mark.parametrize("situation", list(dict.fromkeys(LATER)))
def test_a_situation_that_came_later_breaks_no_promise(situation: Callable[[Random, int], Plan]) -> None:
    plan = situation(Random(1), 1)
    plan = replace(plan, sends=tuple(sorted(plan.sends, key=lambda send: send.at)))
    history, broken = checked(plan)
    assert not broken, tell(plan, history, broken)


def test_what_came_later_takes_no_seed_from_the_others() -> None:
    focus = {seed: focused(seed) for seed in range(200)}
    first = {seed for seed in focus if Random(f"{seed}/focus").random() < SHARE}
    assert all(focus[seed] is not None for seed in first)
    later = [seed for seed, plan in focus.items() if plan is not None and seed not in first]
    assert 10 < len(later) < 60


def test_a_bridge_that_is_full_takes_records_later() -> None:
    """It holds fewer than come while its sink is down."""
    bridges = (Bridge("b2", Policy(retry=0, max_in_flight=64), source="kafka"),)
    sends = tuple(Send(1 + n / 100, (Event(f"e{n}", key="k1"),), to="b2", mode="record") for n in range(40))
    away = Fault(0.5, "status", "b2", 5.0, 503)
    history, broken = checked(
        Plan(1, (Config(bridges=bridges, kafka=Kafka()),), sends, (away,), seconds=10, most_held=20)
    )
    assert not broken
    came = [(a.at, dict(a.headers)["ce-id"]) for a in history.of(Arrived)]
    assert len({id for at, id in came if at < 5.5}) == 20
    assert len({id for _, id in came}) == 40
