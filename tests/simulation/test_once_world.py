"""A broker that deduplicates in the simulated world: a search over plans with crashes, power failures, full disks,
other windows, and several workers."""

from __future__ import annotations

import pytest

from tests.simulation.history import Answered, Kept
from tests.simulation.once_plan import duplicating
from tests.simulation.oracle import violations
from tests.simulation.planting import FOLDER, bugs
from tests.simulation.test_planting import fits_and_quotes, the_search_finds
from tests.simulation.world import run

pytestmark = pytest.mark.spec("ONCE-15")
BUGS = bugs(FOLDER / "once")


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 1000), marks=pytest.mark.full)])
@pytest.mark.slow
def test_no_plan_breaks_a_promise(seeds: range) -> None:
    duplicates = 0
    for seed in seeds:
        plan = duplicating(seed)
        history = run(plan)
        found = violations(plan, history)
        assert not found, f"seed {seed}: {found[0]}"
        assert any(True for _ in history.of(Kept))
        duplicates += sum(len(answer.firsts) for answer in history.of(Answered))
    assert duplicates > 5 * len(seeds), "the plans send too little again"


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_fits_the_code_and_quotes_the_promise(name: str) -> None:
    fits_and_quotes(BUGS[name])


@pytest.mark.full
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", BUGS)
def test_the_search_finds_it(name: str) -> None:
    the_search_finds("once", name)
