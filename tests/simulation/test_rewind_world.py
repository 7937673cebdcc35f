"""Rewinds in the simulated world: a search over plans with kills, restarts, reloads, failures and several workers."""

from __future__ import annotations

import pytest

from tests.simulation.history import Rewound
from tests.simulation.oracle import violations
from tests.simulation.planting import FOLDER, bugs
from tests.simulation.rewind_plan import rewinding
from tests.simulation.test_planting import fits_and_quotes, the_search_finds
from tests.simulation.world import run

pytestmark = pytest.mark.spec("AGAIN-36")
BUGS = bugs(FOLDER / "rewinds")


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 2000), marks=pytest.mark.full)])
@pytest.mark.slow
def test_no_plan_breaks_a_promise(seeds: range) -> None:
    for seed in seeds:
        plan = rewinding(seed)
        history = run(plan)
        found = violations(plan, history)
        assert not found, f"seed {seed}: {found[0]}"
        assert len(list(history.of(Rewound))) == len(plan.rewinds)


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_fits_the_code_and_quotes_the_promise(name: str) -> None:
    fits_and_quotes(BUGS[name])


@pytest.mark.full
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", BUGS)
def test_the_search_finds_it(name: str) -> None:
    the_search_finds("rewinds", name)
