"""Batches and triggers that hold in the simulated world: a search over plans with crashes, reloads, subscribers that
reject, fail or are down."""

from __future__ import annotations

import pytest

from tests.simulation.decoding import attributes_of_all
from tests.simulation.history import Arrived, Refused, Replied
from tests.simulation.oracle import violations
from tests.simulation.planting import FOLDER, bugs
from tests.simulation.test_planting import fits_and_quotes, the_search_finds
from tests.simulation.together_plan import together
from tests.simulation.world import run

pytestmark = pytest.mark.spec("BATCH-12", "HOLD-09")
BUGS = bugs(FOLDER / "together")
SHORT = ("a-late-event-joins-a-half-that-left",)


@pytest.mark.parametrize("seeds", [range(25), pytest.param(range(25, 2000), marks=pytest.mark.full)])
@pytest.mark.slow
def test_no_plan_breaks_a_promise(seeds: range) -> None:
    together_, parts, away = 0, 0, 0
    for seed in seeds:
        plan = together(seed)
        history = run(plan)
        found = violations(plan, history)
        assert not found, f"seed {seed}: {found[0]}"
        together_ += sum(len(attributes_of_all(one)) > 1 for one in history.of(Arrived))
        parts += sum(bool(one.statuses) for one in history.of(Replied))
        away += any(one.server in ("t2", "t3") for one in history.of(Refused))
    assert together_ > 10 * len(seeds), "the plans have too few batches"
    assert parts > len(seeds), "the plans have too few statuses of single events"
    assert away > len(seeds) / 3, "the subscribers of triggers that hold are down too seldom"


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_fits_the_code_and_quotes_the_promise(name: str) -> None:
    fits_and_quotes(BUGS[name])


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in SHORT else pytest.mark.full) for name in BUGS])
def test_the_search_finds_it(name: str) -> None:
    the_search_finds("together", name)
