"""The simulated Kafka cluster: what the plugin does on it, and what the oracle finds."""

from __future__ import annotations

import pytest

from tests.simulation.history import (
    Answered,
    Arrived,
    Broken,
    Committed,
    History,
    Produced,
    Quiet,
    Replied,
    Started,
    Taken,
)
from tests.simulation.oracle import violations
from tests.simulation.plan import Bridge, Config, Event, Fault, Kafka, Plan, Policy, Send, Trigger
from tests.simulation.world import run

RECORDS = tuple(Send(1 + number / 10, (Event(f"e{number}", key="k1"),), to="b2", mode="record") for number in range(20))
clients = pytest.mark.parametrize("client", ["aiokafka", "confluent"])


def bridge(client: str = "confluent", *, sink: str = "http") -> Config:
    return Config(bridges=(Bridge("b2", Policy(retry=0), True, "kafka", sink),), kafka=Kafka(client=client))


def arrived(history: History, server: str) -> list[str]:
    return [dict(a.headers)["ce-id"] for a in history.of(Arrived) if a.server == server]


@clients
@pytest.mark.parametrize("sink", ["http", "kafka"])
def test_records_reach_the_sink_in_order_and_are_committed(client: str, sink: str) -> None:
    history = run(Plan(1, (bridge(client, sink=sink),), RECORDS, seconds=10))
    assert arrived(history, "b2") == [f"e{number}" for number in range(20)]
    last = {c.partition: c.offset for c in history.of(Committed)}
    ends = {r.partition: r.offset + 1 for r in history.of(Produced) if r.topic == "in-b2"}
    assert ends.items() <= last.items()
    assert [q.quiet for q in history.of(Quiet)] == [True]
    assert not list(history.of(Broken))


@clients
def test_another_member_takes_some_and_nothing_is_lost(client: str) -> None:
    plan = Plan(3, (bridge(client),), RECORDS, (Fault(1.5, "kafka-move", "0", 1.0, 3),), seconds=10)
    history = run(plan)
    taken = [(t.partition, offset) for t in history.of(Taken) for offset in range(t.begin, t.end)]
    there = {r.id for r in history.of(Produced) if (r.partition, r.offset) in taken}
    assert there
    assert there | set(arrived(history, "b2")) == {f"e{number}" for number in range(20)}
    assert not violations(plan, history)


def test_what_comes_back_after_a_crash_is_what_was_not_committed() -> None:
    history = run(Plan(1, (bridge(),), RECORDS, (Fault(1.95, "crash", seconds=0.5),), seconds=60))
    again = [id for id in set(arrived(history, "b2")) if arrived(history, "b2").count(id) > 1]
    assert 0 < len(again) < 10
    assert len(set(arrived(history, "b2"))) == 20


def test_a_sender_waits_for_the_topic() -> None:
    config = Config((Trigger("t1"),), kafka=Kafka(channel=True))
    sends = (Send(1, (Event("e1"),)), Send(3, (Event("e2"),)), Send(200, (Event("e3"),)))
    faults = (Fault(2, "kafka-produce", "", 2.0, 0), Fault(199, "kafka-produce", "", 60.0, 3))
    answers = {
        a.send: (a.status, round(a.at)) for a in run(Plan(1, (config,), sends, faults, seconds=260)).of(Answered)
    }
    assert answers == {0: (202, 1), 1: (202, 4), 2: (503, 230)}


def test_an_offset_that_is_committed_too_early_is_found() -> None:
    plan = Plan(1, (bridge(),), RECORDS[:1], seconds=10)
    event = RECORDS[0].events[0]
    headers = {"ce-" + n: v for n, v in event.attributes.items() if n != "datacontenttype"}
    headers["content-type"] = "text/plain"

    def checked(commit_at: float) -> set[str]:
        parts = [
            Produced(1.0, "in-b2", 1, 0, 0, "e0", 0, 0, 0),
            Arrived(1.1, 0, "b2", 0, tuple(headers.items()), event.data, 1),
            Replied(1.2, 0, 202),
            Committed(commit_at, "tidegate.b2", "in-b2", 1, 0, 1, "gateway"),
        ]
        whole = [Started(0.5, 1, 0), *sorted(parts, key=lambda r: r.at), Quiet(100.0, True)]
        return {v.promise for v in violations(plan, History(whole))}

    assert checked(1.3) == set()
    assert checked(1.15) == {"an-offset-is-committed-after-all-before-it"}
