"""Simulated runs keep all promises: those that once found something, and some new ones; planted bugs are found."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.simulation import planting
from tests.simulation.plan import Plan
from tests.simulation.search import hunted, searched
from tests.simulation.searching import checked
from tests.simulation.story import tell

CORPUS = sorted(Path(__file__).with_name("corpus").glob("*.json"))
FOUND: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("planted_found.toml").read_text())
"""The planted bugs that a search from seed 1 has found: the seed, how many seconds of CPU it took, the promises."""
FIRST = int(os.environ.get("TIDEGATE_SIMULATION_FIRST", "1"))
"""The first seed that is tried."""


@pytest.mark.slow
@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_what_once_broke_a_promise_keeps_it(file: Path) -> None:
    plan = Plan.read(file.read_text())
    history, broken = checked(plan)
    assert not broken, tell(plan, history, broken)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + 6))
def test_a_new_run_breaks_no_promise(seed: int) -> None:
    plan = Plan.of(seed)
    history, broken = checked(plan)
    assert not broken, tell(plan, history, broken)


SAMPLE = ("one-try-too-few", "one-try-too-many")
"""Those that are found soon."""


@pytest.mark.parametrize(
    "name", [*SAMPLE, *(pytest.param(n, marks=pytest.mark.full) for n in FOUND if n not in SAMPLE)]
)
def test_a_planted_bug_is_found(name: str, processes: None) -> None:
    hunt = hunted(name, first=FOUND[name]["seed"], seeds=300)
    assert hunt.seed is not None, f"nothing was found though {planting.bugs()[name].broken}"


def test_each_planted_bug_is_found_by_the_plans_of_now() -> None:
    assert FOUND.keys() == planting.bugs().keys()
    assert [name for name, found in FOUND.items() if found["seed"] > 300] == []


@pytest.mark.full
def test_many_runs_break_no_promise(processes: None) -> None:
    for result in searched(FIRST, 300, os.cpu_count() or 1):
        assert not result["broken"], result
