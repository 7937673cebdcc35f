"""The page of transports: what it reads from the tests."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from gateway_plugins.suite_use import suites

ROOT = Path(__file__).parents[2]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("docs_transports")


@pytest.mark.slow
@pytest.mark.spec("PD-01")
def test_it_knows_which_suites_a_component_passes() -> None:
    found = suites([ROOT / "tests" / "conformance" / "test_suites.py"])
    names = {component: {suite for suite, _ in uses} for component, uses in found.items()}
    assert names["source", "http"] == {"SourceSuite"}
    assert names["sink", "http"] == {"RemoteSinkSuite"}  # also by a class that derives from the one with the suite
    assert names["channel", "log"] == {"ChannelSuite"}


def test_it_shows_what_the_fault_matrix_counted(page: Any) -> None:
    row = {"acknowledged": 12345, "delivered": 12340, "dead_lettered": 5, "duplicates": 7, "out_of_order": 0}
    good, bad = {**row, "lost": 0, "faults": 10, "seconds": 61.4}, {**row, "lost": 3, "faults": 1, "seconds": 2.0}
    lines = list(page.faults({"pigeon": {"a good one": good, "the bad one": bad}}))
    assert "### Faults of pigeon" in lines
    assert "| the bad one | 3 of 12,345, 7 again |" in lines
    assert lines[-2:] == [
        "| the bad one | 1 | 12,345 | 5 | 7 | 0 | **3** | 2 |",
        "| a good one | 10 | 12,345 | 5 | 7 | 0 | **0** | 61 |",
    ]
    assert list(page.faults({})) == []
