"""The simulated world itself: it is a function of its plan, and what happens in it is what its plan says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gateway_serving import descriptors

from tests.simulation.history import Answered, Arrived, Broken, Ended, Happened, Letter, Quiet, Started
from tests.simulation.oracle import violations
from tests.simulation.plan import Config, Event, Fault, Filter, Plan, Policy, Send, Trigger
from tests.simulation.replaced import forget
from tests.simulation.world import run

SENDS = tuple(Send(1 + number / 10, (Event(f"e{number}"),), number % 3) for number in range(20))
ONE = (Config((Trigger("t1"),)),)


def arrived(plan: Plan, server: str) -> list[str]:
    return [dict(a.headers)["ce-id"] for a in run(plan).of(Arrived) if a.server == server]


def test_events_reach_their_subscriber_once() -> None:
    history = run(Plan(1, ONE, SENDS, seconds=10))
    assert [a.status for a in history.of(Answered)] == [202] * 20
    assert sorted(dict(a.headers)["ce-id"] for a in history.of(Arrived)) == sorted(f"e{n}" for n in range(20))
    assert [q.quiet for q in history.of(Quiet)] == [True]
    assert not list(history.of(Broken))


@pytest.mark.slow
def test_filters_choose() -> None:
    sends = (Send(1, (Event("x", "a"),)), Send(2, (Event("y", "b"),)))
    config = Config(tuple(Trigger(kind, Filter(kind, "a")) for kind in ("type", "prefix", "not", "sql", "simulated")))
    plan = Plan(1, (config,), sends, seconds=5)
    found = {kind: arrived(plan, kind) for kind in ("type", "prefix", "not", "sql", "simulated")}
    assert found == {"type": ["x"], "prefix": ["x"], "not": ["y"], "sql": ["x"], "simulated": ["x"]}


def test_a_crash_ends_one_life_and_loses_no_event() -> None:
    faults = (Fault(1.5, "crash", seconds=0.5, amount=3), Fault(2.6, "power", seconds=0.5))
    history = run(Plan(1, ONE, SENDS, faults, seconds=10))
    assert [e.how for e in history.of(Ended)] == ["crash", "power", "stop"]
    assert [s.generation for s in history.of(Started)] == [1, 2, 3]
    accepted = {SENDS[a.send].events[0].id for a in history.of(Answered) if a.status == 202}
    assert 5 < len(accepted) < 20
    assert accepted <= {dict(a.headers)["ce-id"] for a in history.of(Arrived)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_power_failure_soon_after_the_first_start_loses_no_event(seed: int) -> None:
    faults = (Fault(0.5, "stall", "t1", 2.0), Fault(1.5, "power", seconds=0.5))
    history = run(Plan(seed, ONE, SENDS[:3], faults, seconds=5))
    accepted = {SENDS[a.send].events[0].id for a in history.of(Answered) if a.status == 202}
    second = {dict(a.headers)["ce-id"] for a in history.of(Arrived) if a.generation == 2}
    assert accepted == {"e0", "e1", "e2"}
    assert second == accepted


@pytest.mark.slow
def test_a_subscriber_that_refuses_sends_its_events_to_the_dead_letter() -> None:
    policy = Policy(retry=1, backoff_delay_s=0.05)
    faults = (Fault(0.5, "refuse", "t1", 100.0),)
    file = run(Plan(1, (Config((Trigger("t1", policy=policy),), dead_letter="file"),), SENDS, faults, seconds=100))
    assert {dict(letter.attributes)["id"] for letter in file.of(Letter)} == {f"e{n}" for n in range(20)}
    server = Plan(1, (Config((Trigger("t1", policy=policy),)),), SENDS, faults, seconds=100)
    assert sorted(arrived(server, "dead")) == sorted(f"e{n}" for n in range(20))


@pytest.mark.slow
@pytest.mark.spec("SAFE-82")
def test_events_are_given_up_after_their_time_and_the_oracle_knows_it() -> None:
    policy = Policy(retry=1000, retry_for=20.0)
    faults = (Fault(0.5, "refuse", "t1", 100.0),)
    plan = Plan(1, (Config((Trigger("t1", policy=policy),), dead_letter="file"),), SENDS, faults, seconds=100)
    history = run(plan)
    assert {dict(letter.attributes)["id"] for letter in history.of(Letter)} == {f"e{n}" for n in range(20)}
    assert violations(plan, history) == []
    early = replace(
        plan, configs=(Config((Trigger("t1", policy=replace(policy, retry_for=60.0)),), dead_letter="file"),)
    )
    promised = {violation.promise for violation in violations(early, history)}
    assert "nobody-is-given-up-before-its-time" in promised


def test_the_oracle_knows_an_event_that_is_tried_after_its_time() -> None:
    def plan(seconds: float) -> Plan:
        policy = Policy(retry=1000, retry_for=seconds)
        return Plan(
            1,
            (Config((Trigger("t1", policy=policy),), dead_letter="file"),),
            SENDS,
            (Fault(0.5, "status", "t1", 100.0, 503),),
            seconds=100,
        )

    history = run(plan(20.0))
    assert violations(plan(20.0), history) == []
    assert "nobody-is-tried-after-its-time" in {violation.promise for violation in violations(plan(5.0), history)}


def test_something_that_is_no_outcome_is_a_failed_attempt() -> None:
    config = Config((Trigger("t1", policy=Policy(retry=1, backoff_delay_s=0.05), sink="simulated"),))
    history = run(Plan(1, (config,), SENDS[:1], (Fault(0.5, "sink", "t1", 20.0, 4),), seconds=20))
    assert not list(history.of(Broken))
    assert [a.server for a in history.of(Arrived)] == ["t1", "t1", "dead"]
    assert max(a.at for a in history.of(Arrived)) < 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_run_is_a_function_of_its_plan(seed: int) -> None:
    plan = Plan.of(seed)
    first, second = run(plan), run(plan)
    assert first.records == second.records
    assert first.digest == second.digest
    assert len(list(first.of(Happened))) == len(plan.faults)


def test_a_new_process_has_no_connections_of_the_one_before() -> None:
    class Pool:
        closed = 0

        def candidates(self) -> list[descriptors.Candidate]:
            return [descriptors.Candidate(0, 0.0, self.close)]

        def close(self) -> None:
            self.closed += 1

    pool = Pool()
    descriptors.lend(pool)
    try:
        forget()
        assert (descriptors.relieve(), pool.closed) == (0, 0)
    finally:
        descriptors.take_back(pool)
