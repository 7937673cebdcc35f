"""The simulated MQTT and NATS servers: what the plugins do on them, and what the oracle finds."""

from __future__ import annotations

import pytest

from tests.simulation.history import Arrived, Broken, History, Published, Quiet
from tests.simulation.oracle import violations
from tests.simulation.plan import Config, Event, Fault, Plan, Queues, Send, Trigger
from tests.simulation.queue_plan import MQTT, NATS, queued
from tests.simulation.world import run

MESSAGES = tuple(Send(1 + number / 10, (Event(f"e{number}"),), number % 3, mode=MQTT) for number in range(20))
TOPICS = ("in/a", "in/b", "in/c")
queues = pytest.mark.parametrize("mode", [MQTT, NATS])


def plan(mode: str, *faults: Fault, seconds: float = 20.0) -> Plan:
    config = Config((Trigger("t1"),), queues=Queues(TOPICS, "in.>"))
    sends = tuple(Send(send.at, send.events, send.connection, mode=mode) for send in MESSAGES)
    return Plan(1, (config,), sends, faults, seconds=seconds)


def arrived(history: History) -> list[str]:
    return [dict(a.headers)["ce-id"] for a in history.of(Arrived)]


@pytest.mark.slow
@queues
@pytest.mark.spec("SIM-13")
def test_messages_reach_the_subscriber_once_if_nothing_fails(mode: str) -> None:
    history = run(plan(mode))
    assert sorted(arrived(history)) == sorted(f"e{number}" for number in range(20))
    assert [q.quiet for q in history.of(Quiet)] == [True]
    assert not list(history.of(Broken))


@pytest.mark.slow
@queues
@pytest.mark.parametrize("kind", ["queue-away", "queue-vanish", "queue-cut"])
@pytest.mark.spec("SIM-13")
def test_messages_that_come_while_the_server_is_not_there_wait_in_it(mode: str, kind: str) -> None:
    made = plan(mode, Fault(1.5, kind, mode, 5.0 if kind != "queue-cut" else 0.0), seconds=60.0)
    history = run(made)
    assert set(arrived(history)) == {f"e{number}" for number in range(20)}
    assert not violations(made, history)


@queues
@pytest.mark.spec("SIM-13")
def test_messages_that_were_not_acknowledged_come_again_after_a_crash(mode: str) -> None:
    made = plan(mode, Fault(1.0, "disk-slow", "", 3.0, 300), Fault(1.95, "crash", "", 0.5), seconds=60.0)
    history = run(made)
    assert set(arrived(history)) == {f"e{number}" for number in range(20)}
    assert not violations(made, history)


@queues
@pytest.mark.spec("SIM-13")
def test_a_message_that_never_comes_is_found(mode: str) -> None:
    """The oracle is shown a history in which one message is published that no server has."""
    made = plan(mode)
    history = run(made)
    lost = next(iter(history.of(Published))).id
    kept = [r for r in history.records if not isinstance(r, Arrived) or dict(r.headers)["ce-id"] != lost]
    numbers = {r.number for r in kept if isinstance(r, Arrived)}
    whole = [r for r in kept if getattr(r, "number", None) in (None, *numbers)]
    assert "every-accepted-event-is-settled" in {v.promise for v in violations(made, History(whole))}


@pytest.mark.spec("SIM-13")
def test_an_edit_that_reorders_ingresses_loses_nothing() -> None:
    first = Config((Trigger("t1"),), queues=Queues(("in/b",)))
    then = Config((Trigger("t1"),), queues=Queues(("in/a", "in/b")))
    sends = tuple(Send(1 + number / 10, (Event(f"e{number}"),), 0, mode=MQTT) for number in range(50))
    made = Plan(1, (first, then), sends, (Fault(2.0, "reload", amount=1),), seconds=20.0)
    assert not violations(made, run(made))


@pytest.mark.slow
def test_two_runs_of_a_plan_are_equal() -> None:
    found = next(found for seed in range(1000) if (found := queued(seed)) is not None and found.configs[0].queues)
    assert run(found).digest == run(found).digest
