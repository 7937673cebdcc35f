"""The account notices every kind of loss: each case takes or changes one thing in a run where nothing is missing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from gateway_demo import accounting, again, flights
from gateway_demo.flights import FlightEvent
from gateway_demo.sender import Ledger
from gateway_demo.subscriber import undeliverable, verdict
from gateway_demo.wire import Request
from msgspec.structs import replace

from gateway_core.contract.status import BrokerStatus, GatewayStatus


def event(n: int, type: str, subject: str = "N1") -> FlightEvent:
    return FlightEvent({"id": f"e{n}", "type": type, "subject": subject}, b"%d" % n)


@dataclass
class Run:
    """All that a run leaves behind."""

    ledger: Ledger = field(default_factory=Ledger)
    status: GatewayStatus = field(default_factory=lambda: GatewayStatus("1"))
    subscriber: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    dead: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    rows: list[tuple[str, str, int, int]] = field(default_factory=list)

    def bad(self) -> list[str]:
        table = accounting.TableFacts(self.rows)
        checks = accounting.check_all(self.ledger, self.status, self.subscriber, self.dead, self.cancelled, table)
        return [f"{c.where}: {c.text}" for c in checks if not c.ok]


def whole_run() -> Run:
    run = Run()
    kinds = (flights.LATE, flights.DEPARTED, flights.CANCELLED, flights.DIVERTED)
    good = [event(n, kinds[n % 4]) for n in range(1200)]
    good += [event(n, flights.CANCELLED, subject="") for n in range(1200, 1210)]
    run.ledger.note(Request(b"", tuple(good)), 202, b"")
    run.status = GatewayStatus("1", brokers=[BrokerStatus("b", accepted=len(good))])
    for e in (e for e in good if e.type == flights.LATE):
        if undeliverable(e.id):
            run.dead.append(e.id)
            run.subscriber[e.id] = (4, 0, "")
        else:
            run.subscriber[e.id] = (1 if verdict(e.id, 1) == 202 else 2, 1, e.digest)
    run.cancelled = [e.id for e in good if e.type == flights.CANCELLED]
    run.rows = [(e.id, e.digest, 0, n) for n, e in enumerate(good)]
    return run


WHOLE = whole_run()


def test_a_whole_run_has_nothing_missing() -> None:
    assert WHOLE.bad() == []
    assert len(WHOLE.dead) > 0
    assert WHOLE.ledger.sent == 1210


def lose_a_delivery(run: Run) -> None:
    del run.subscriber[next(id for id, row in run.subscriber.items() if row[1])]


def change_a_payload(run: Run) -> None:
    id = next(id for id, row in run.subscriber.items() if row[1])
    run.subscriber[id] = (1, 1, "another")


def refuse_a_good_one(run: Run) -> None:
    id, e = next(iter(run.ledger.accepted.items()))
    run.ledger.refused[id] = run.ledger.accepted.pop(id)
    run.status.brokers[0] = BrokerStatus("b", accepted=1199, refused=11)
    run.rows = [row for row in run.rows if row[0] != id]
    run.dead = [d for d in run.dead if d != id]
    run.subscriber.pop(id, None)
    assert e.type == flights.LATE


def miscount(run: Run) -> None:
    (broker,) = run.status.brokers
    run.status.brokers[0] = replace(broker, accepted=broker.accepted - 1)


def letter_twice(run: Run) -> None:
    run.dead.append(run.dead[0])


def letter_lost(run: Run) -> None:
    run.dead.pop()


def letter_and_delivered(run: Run) -> None:
    run.dead.append(next(id for id, row in run.subscriber.items() if row[1]))


def cancelled_lost(run: Run) -> None:
    run.cancelled.pop()


def cancelled_twice(run: Run) -> None:
    run.cancelled.append(run.cancelled[0])


def row_lost(run: Run) -> None:
    run.rows.pop()


def row_twice(run: Run) -> None:
    run.rows[-1] = run.rows[0]


def row_added(run: Run) -> None:
    run.rows.append(("nobody", "", 0, 999_999))


def row_changed(run: Run) -> None:
    id, _, shard, position = run.rows[5]
    run.rows[5] = (id, "another", shard, position)


def strange_answer(run: Run) -> None:
    run.ledger.note(Request(b"", (event(9999, flights.LATE),)), 500, b"oh")


@pytest.mark.parametrize(
    "damage",
    [
        lose_a_delivery,
        change_a_payload,
        refuse_a_good_one,
        miscount,
        letter_twice,
        letter_lost,
        letter_and_delivered,
        cancelled_lost,
        cancelled_twice,
        row_lost,
        row_twice,
        row_added,
        row_changed,
        strange_answer,
    ],
)
def test_each_loss_is_noticed(damage: Callable[[Run], None]) -> None:
    run = copy.deepcopy(WHOLE)
    damage(run)
    assert run.bad()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({}, []),
        ({"answers": [(202, True), (202, False)]}, ["again"]),
        ({"duplicates": 3}, ["again"]),
        ({"replayed": ["e2"]}, ["replay"]),
        ({"replayed": ["e2", "e6", "e6"]}, ["replay"]),
        ({"later": {"e3": [13.0]}}, ["diverted"]),
        ({"later": {"e3": [13.0], "e7": [12.9]}}, ["diverted"]),
        ({"later": {"e3": [13.0], "e7": [13.0, 14.0]}}, ["diverted"]),
    ],
)
def test_what_is_sent_again_or_later_is_counted(change: dict[str, Any], where: list[str]) -> None:
    kinds = (flights.LATE, flights.DEPARTED, flights.CANCELLED, flights.DIVERTED)
    ledger = Ledger()
    ledger.note(Request(b"", tuple(event(n, kinds[n % 4]) for n in range(8))), 202, b"")
    ledger.begun = {"e3": 10.0, "e7": 10.0}
    run: dict[str, Any] = {
        "answers": [(202, True), (202, True)],
        "duplicates": 2,
        "replayed": ["e2", "e6"],
        "later": {"e3": [13.0], "e7": [13.5]},
    } | change
    status = GatewayStatus("1", brokers=[BrokerStatus("b", accepted=8, duplicates=run["duplicates"])])
    shown = again.Shown(run["answers"], 2, 2)
    checks = again.check(shown, ledger, status, run["replayed"], run["later"])
    assert [c.where for c in checks if not c.ok] == where
