"""Plans: drawn from a seed, kept as JSON, cut down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.choices import IN_TOGETHER, KINDS
from tests.simulation.plan import Fault, Plan


def test_a_plan_is_a_function_of_its_seed() -> None:
    assert Plan.of(7) == Plan.of(7)
    assert Plan.of(7) != Plan.of(8)


@pytest.mark.slow
def test_a_plan_survives_json() -> None:
    plans = [Plan.of(seed) for seed in range(100)]
    assert [Plan.read(plan.json()) for plan in plans] == plans


def test_a_plan_with_an_unknown_key_is_refused() -> None:
    with pytest.raises(ValueError, match="surprise"):
        Plan.read('{"seed": 1, "surprise": 2}')


def test_dropping_an_entry_changes_no_draw() -> None:
    plan = Plan.of(3)
    less = replace(plan, sends=plan.sends[1:], faults=())
    assert plan.random("latency").random() == less.random("latency").random()


@pytest.mark.slow
def test_plans_have_every_kind_of_fault() -> None:
    found = {fault.kind for seed in range(300) for fault in Plan.of(seed).faults}
    assert found == set(KINDS) - IN_TOGETHER
    assert all(isinstance(fault, Fault) for fault in Plan.of(1).faults)
