"""TLS in the simulated world: the gateway speaks it with senders and servers, and the oracle sees what goes wrong."""

from __future__ import annotations

import pytest

from tests.simulation.history import Arrived, Broken, Greeted, History, Lingered, Quiet
from tests.simulation.oracle import violations
from tests.simulation.plan import Bridge, Config, Event, Fault, Network, Plan, Send, Trigger
from tests.simulation.tls_plan import secured
from tests.simulation.world import run

WELL = Network()


def plan(*faults: Fault, network: Network = WELL, seconds: float = 20.0) -> Plan:
    config = Config((Trigger("t1"),), (Bridge("b1"),), tls=True)
    sends = tuple(
        Send(
            1 + number / 2, (Event(f"e{number}", size=3000),), number % 3, ("default", "b1")[number % 5 == 4], tries=20
        )
        for number in range(20)
    )
    return Plan(1, (config,), sends, faults, network, seconds)


def arrived(history: History) -> list[str]:
    return [dict(a.headers)["ce-id"] for a in history.of(Arrived)]


@pytest.mark.parametrize("piece", [0, 7])
@pytest.mark.spec("SIM-15")
def test_events_arrive_once_if_nothing_fails(piece: int) -> None:
    made = plan(network=Network(piece=piece))
    history = run(made)
    assert sorted(arrived(history)) == sorted(f"e{number}" for number in range(20))
    assert [q.quiet for q in history.of(Quiet)] == [True]
    assert not list(history.of(Broken))
    assert not violations(made, history)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tls-silent", "tls-handshake", "tls-cut", "vanish", "cut-answer"])
@pytest.mark.spec("SIM-15")
def test_what_a_server_does_to_its_connections_loses_nothing(kind: str) -> None:
    faults = (Fault(2.2, "refuse", "t1", 0.1), Fault(2.2, "refuse", "b1", 0.1))  # so that there are new handshakes
    made = plan(*faults, Fault(2.1, kind, "t1", 4.0, 200), Fault(2.1, kind, "b1", 4.0, 201))
    history = run(made)
    assert set(arrived(history)) == {f"e{number}" for number in range(20)}
    assert not violations(made, history)


@pytest.mark.spec("SIM-15")
def test_a_stranger_whose_handshake_stops_is_sent_away() -> None:
    made = plan(*(Fault(2.0, "tls-hello", amount=amount) for amount in (0, 1, 100, 10_000)), seconds=40.0)
    history = run(made)
    assert not list(history.of(Lingered))
    assert not violations(made, history)


@pytest.mark.spec("SIM-15")
def test_a_renewed_certificate_is_shown_and_one_without_its_key_is_not() -> None:
    leaves = (Fault(at, "sender-leave", str(number)) for at in (3.9, 6.9) for number in range(3))
    made = plan(Fault(3.0, "tls-renew", amount=1), Fault(6.0, "tls-renew", "", 8.0, -2), *leaves)
    history = run(made)
    shown = [greeted.certificate for greeted in history.of(Greeted)]
    assert set(shown) == {0, 1}
    assert not violations(made, history)


@pytest.mark.slow
def test_two_runs_of_a_plan_are_equal() -> None:
    found = [found for seed in range(100) if (found := secured(seed)) is not None][:4]
    assert [run(plan).digest for plan in found] == [run(plan).digest for plan in found]
