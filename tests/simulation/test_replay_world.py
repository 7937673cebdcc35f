"""Replays of past events in the simulated world: a search over plans with crashes, reloads and failing subscribers."""

from __future__ import annotations

import pytest

from tests.simulation.history import Arrived, ReplayBegan
from tests.simulation.oracle import violations
from tests.simulation.planting import FOLDER, bugs
from tests.simulation.replay_plan import replaying
from tests.simulation.test_planting import fits_and_quotes, the_search_finds
from tests.simulation.world import run

pytestmark = pytest.mark.spec("AGAIN-19")
BUGS = bugs(FOLDER / "replays")


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(15, 2000), marks=pytest.mark.full)])
@pytest.mark.slow
def test_no_plan_breaks_a_promise(seeds: range) -> None:
    again = 0
    for seed in seeds:
        plan = replaying(seed)
        history = run(plan)
        found = violations(plan, history)
        assert not found, f"seed {seed}: {found[0]}"
        assert len(list(history.of(ReplayBegan))) >= 1
        again += sum(any(name == "ce-tidegatereplay" for name, _ in a.headers) for a in history.of(Arrived))
    assert again > 10 * len(seeds), "the plans replay too little"


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_fits_the_code_and_quotes_the_promise(name: str) -> None:
    fits_and_quotes(BUGS[name])


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "name",
    [
        "progress-skips-what-is-under-way",
        *(pytest.param(name, marks=pytest.mark.full) for name in BUGS if name != "progress-skips-what-is-under-way"),
    ],
)
def test_the_search_finds_it(name: str) -> None:
    the_search_finds("replays", name)
