"""Delays and schedules in the simulated world: a search over plans with crashes, reloads, clock steps and operators."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.history import Arrived, Operated, Stored, Waits
from tests.simulation.later_plan import later
from tests.simulation.oracle import violations
from tests.simulation.planting import FOLDER, bugs
from tests.simulation.test_planting import fits_and_quotes, the_search_finds
from tests.simulation.world import run

pytestmark = pytest.mark.spec("SIM-18")
BUGS = bugs(FOLDER / "later")
SAMPLE = "of-all-only-the-last"
"""One that is found soon."""


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 200), marks=pytest.mark.full)])
@pytest.mark.slow
def test_no_plan_breaks_a_promise(seeds: range) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        plan = later(seed)
        history = run(plan)
        found = violations(plan, history)
        assert not found, f"seed {seed}: {found[0]}"
        for kind in (Arrived, Stored, Waits, Operated):
            seen[kind.__name__] += len(list(history.of(kind)))
    assert seen["Arrived"] > 10 * len(seeds)
    assert seen["Stored"] > 2 * len(seeds)
    assert len(seeds) < 100 or min(seen["Waits"], seen["Operated"]) > len(seeds) / 4


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_fits_the_code_and_quotes_the_promise(name: str) -> None:
    fits_and_quotes(BUGS[name])


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == SAMPLE else [pytest.mark.full]) for name in BUGS]
)
def test_the_search_finds_it(name: str) -> None:
    the_search_finds("later", name, 400)
