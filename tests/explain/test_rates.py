"""Rates of attempts: what failed is what ended and did not deliver."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_console.health import health_of
from gateway_inspect.rates import between
from msgspec.structs import replace

from gateway_core.contract.status import GatewayStatus, TriggerStatus

pytestmark = [pytest.mark.pure, pytest.mark.spec("SAFE-93")]

BEFORE = TriggerStatus(name="t", broker="b", ready=True, attempts=100, delivered=90, in_flight=4, dead_lettered=6)


def rates(**now: Any) -> dict[str, Any]:
    def status(trigger: TriggerStatus) -> GatewayStatus:
        return GatewayStatus(version="", triggers=[trigger])

    found: dict[str, Any] = between(status(BEFORE), status(replace(BEFORE, **now)), 10.0)["triggers"][0]
    return found


def test_attempts_that_are_rejected_for_good_have_failed() -> None:
    """Nothing is retried, and no dead letter is written yet."""
    found = rates(attempts=120)
    assert (found["failed_per_s"], found["success"], found["dead_lettered_per_s"]) == (2.0, 0.0, 0.0)
    assert health_of(BEFORE, found).word == "failing"


def test_success_is_a_part_of_what_ended() -> None:
    found = rates(attempts=140, delivered=120, in_flight=4, dead_lettered=16)
    assert (found["failed_per_s"], found["success"], found["dead_lettered_per_s"]) == (1.0, 0.75, 1.0)


def test_what_is_in_flight_has_neither_failed_nor_delivered() -> None:
    found = rates(attempts=110, in_flight=14)
    assert (found["failed_per_s"], found["success"]) == (0.0, None)


def test_after_a_restart_it_counts_from_zero() -> None:
    found = rates(attempts=30, delivered=10, in_flight=0)
    assert found["failed_per_s"] == 2.0


@pytest.mark.spec("HOLD-08")
def test_a_trigger_that_holds_its_events_is_held() -> None:
    holding = replace(BEFORE, ready=False, condition="HeldWhileDown", reason="its events are held")
    found = health_of(holding, rates(attempts=110))
    assert (found.word, found.kind, found.reason) == ("held", "bad", "its events are held")
