"""Several workers in the simulated world: the real supervisor and workers, of which single ones are killed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.history import Arrived, History, Logged
from tests.simulation.oracle import violations
from tests.simulation.plan import Config, Event, Fault, Plan, Policy, Queues, Send, Trigger
from tests.simulation.queue_plan import MQTT
from tests.simulation.worker_plan import of_workers
from tests.simulation.world import run

CONFIG = Config((Trigger("t1"),), workers=3)


def plan(*faults: Fault, config: Config = CONFIG, mode: str = "binary") -> Plan:
    sends = tuple(Send(3 + n / 5, (Event(f"e{n}"),), 0 if mode == MQTT else n % 6, mode=mode) for n in range(40))
    again = sends if mode == MQTT else tuple(replace(send, tries=5) for send in sends)
    edited = replace(config, triggers=(Trigger("t1", policy=Policy(max_in_flight=3)),))
    return Plan(1, (config, edited), again, faults, seconds=20.0, settle_s=100.0)


def arrived(history: History) -> list[str]:
    return [dict(a.headers)["ce-id"] for a in history.of(Arrived)]


@pytest.mark.slow
@pytest.mark.spec("SIM-16")
def test_events_arrive_once_from_all_workers_if_nothing_fails() -> None:
    made = plan()
    history = run(made)
    assert sorted(arrived(history)) == sorted(f"e{number}" for number in range(40))
    assert not violations(made, history)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.spec("SIM-16")
def test_a_worker_that_is_killed_alone_starts_again_and_loses_nothing(number: int) -> None:
    made = plan(Fault(4.9, "silent", "t1", 2.0), Fault(5.5, "worker-crash", amount=number))
    history = run(made)
    assert any(f"worker {number} ended (signal 9)" in line.text for line in history.of(Logged))
    assert set(arrived(history)) == {f"e{number}" for number in range(40)}
    assert not violations(made, history)


@pytest.mark.slow
@pytest.mark.spec("SIM-16")
def test_another_worker_takes_over_what_is_fetched() -> None:
    config = replace(CONFIG, queues=Queues(("in/a",)))
    made = plan(Fault(5.0, "worker-crash"), Fault(5.1, "worker-crash", amount=1), config=config, mode=MQTT)
    history = run(made)
    assert set(arrived(history)) == {f"e{number}" for number in range(40)}
    assert not violations(made, history)


@pytest.mark.slow
@pytest.mark.spec("SIM-17")
def test_a_reload_reaches_all_workers_though_the_first_one_is_killed_during_it() -> None:
    """Its successor reads the new config, and has nothing to reload."""
    made = plan(Fault(5.0, "reload", amount=1), Fault(5.0001, "worker-crash"))
    history = run(made)
    assert not violations(made, history)


@pytest.mark.slow
def test_two_runs_of_a_plan_are_equal() -> None:
    found = next(found for seed in range(200) if (found := of_workers(seed)) is not None and len(found.faults) > 3)
    assert run(found).digest == run(found).digest
