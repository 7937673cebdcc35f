"""The mutants of `tests/mutants.toml` fit the code, and name tests that exist."""

from __future__ import annotations

from tests.mutants import LAYERS, mutants
from tests.tree import ROOT


def test_each_mutant_fits_the_code_and_names_tests() -> None:
    found = mutants()
    assert len(found) >= 24
    for mutant in found.values():
        text = (ROOT / mutant.change.file).read_text(encoding="utf-8")
        compile(mutant.change.applied(text), mutant.change.file, "exec")
        assert mutant.what
        assert mutant.tests
        assert [name for name in mutant.tests if not (ROOT / name).exists()] == []


def test_each_tier_is_in_a_layer() -> None:
    for tier in ("unit", "process", "kafka", "spark"):
        assert any(expression.startswith(f"{tier} and ") for expression in LAYERS.values())
