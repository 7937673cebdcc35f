"""The plugin's producer on aiokafka, with a simulated broker that speaks Kafka's protocol."""

from __future__ import annotations

import pytest

from tests.simulation.history import Arrived, Broken, History, Produced, Quiet
from tests.simulation.oracle import violations
from tests.simulation.plan import Bridge, Config, Event, Fault, Kafka, Plan, Policy, Send, Trigger
from tests.simulation.world import run

SENDS = tuple(Send(1 + number / 10, (Event(f"e{number}", key="k1"),), number % 3, tries=3) for number in range(20))
CONFIG = Config((Trigger("t1", policy=Policy(retry=10, order="key"), sink="kafka"),), kafka=Kafka(wire=True))


def written(history: History) -> list[str]:
    return [record.id for record in history.of(Produced) if record.topic == "out-t1"]


@pytest.mark.spec("SIM-14")
def test_records_are_written_once_and_in_order_if_nothing_fails() -> None:
    history = run(Plan(1, (CONFIG,), SENDS, seconds=10))
    assert written(history) == [f"e{number}" for number in range(20)]
    assert [q.quiet for q in history.of(Quiet)] == [True]
    assert not list(history.of(Broken))


@pytest.mark.parametrize("amount", range(4), ids=["refused", "refused for good", "answer lost", "lost"])
@pytest.mark.spec("SIM-14")
def test_a_request_that_fails_is_sent_again_and_written_once(amount: int) -> None:
    made = Plan(1, (CONFIG,), SENDS, (Fault(1.5, "kafka-produce", "", 1.0, amount),), seconds=30)
    history = run(made)
    assert not violations(made, history)
    letters = {dict(a.headers)["ce-id"] for a in history.of(Arrived) if a.dead}
    assert letters | set(written(history)) == {f"e{number}" for number in range(20)}
    assert (letters != set()) == (amount == 1)  # what is refused for good is in the dead letter, the rest is not


@pytest.mark.spec("SIM-14")
def test_a_sender_has_its_answer_when_the_topic_has_the_event() -> None:
    config = Config((Trigger("t1"),), (Bridge("b1", sink="kafka"),), kafka=Kafka(channel=True, wire=True))
    sends = tuple(
        Send(send.at, send.events, send.connection, ("default", "b1")[number % 2], tries=3)
        for number, send in enumerate(SENDS)
    )
    made = Plan(1, (config,), sends, (Fault(1.5, "kafka-away", "", 3.0), Fault(6.0, "crash")), seconds=60)
    assert not violations(made, run(made))
