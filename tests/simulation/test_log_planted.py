"""The bugs of `planted/log/` fit the code, and the search on the simulated disk finds them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.simulation.planting import FOLDER, TREE, bugs
from tests.simulation.test_planting import fits_and_quotes

pytestmark = pytest.mark.spec("SIM-11")
BUGS = bugs(FOLDER / "log")


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_of_the_log_fits_the_code_and_quotes_the_promise(name: str) -> None:
    fits_and_quotes(BUGS[name])


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "name",
    ["full-is-normal", *(pytest.param(name, marks=pytest.mark.full) for name in BUGS if name != "full-is-normal")],
)
def test_the_search_finds_it(name: str) -> None:
    command = [sys.executable, "-m", "tests.simulation.log_search", "--seeds", "3000", "--planted", name]
    ran = subprocess.run(command, cwd=TREE, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
