"""`planted_faults.toml` says for property tests which fault, planted in the code, was seen to make each fail."""

from __future__ import annotations

import ast
import functools
import tomllib
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LISTED: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("planted_faults.toml").read_text())


@functools.cache
def property_tests() -> dict[str, set[str]]:
    """The names of all tests with `@given`, by file."""
    found: dict[str, set[str]] = {}
    for file in TESTS.rglob("*.py"):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if "given(" in text else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(map(_is_given, node.decorator_list)):
                found.setdefault(file.relative_to(TESTS).as_posix(), set()).add(node.name)
    return found


def _is_given(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in ("given", "hypothesis.given")


@pytest.mark.slow
def test_every_property_test_was_seen_to_fail() -> None:
    found = property_tests()
    missing = {f"{file}::{n}" for file, names in found.items() for n in names - LISTED.get(file, {}).keys()}
    assert not missing, "plant a fault, see the test fail, and add a line to planted_faults.toml"
    assert sum(map(len, found.values())) >= 70


@pytest.mark.slow
def test_what_is_listed_exists() -> None:
    found = property_tests()
    gone = [f"{file}::{name}" for file, faults in LISTED.items() for name in faults if name not in found.get(file, ())]
    assert gone == []
    assert all(fault.strip() for faults in LISTED.values() for fault in faults.values())
