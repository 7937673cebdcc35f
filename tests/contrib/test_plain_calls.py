"""Calls are written as calls: no argument list is packed into a tuple to save lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def packed(text: str) -> Iterator[int]:
    """The lines of calls with a tuple literal that is unpacked at once: `f(*(a, b), c)`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            yield from (a.lineno for a in node.args if isinstance(a, ast.Starred) and isinstance(a.value, ast.Tuple))


def test_a_packed_call_is_found() -> None:
    assert list(packed("f(*(a, b), c)\nf(*a, (b, c))\ng = [*(1, 2), 3]\n")) == [1]


@pytest.mark.slow
def test_no_argument_list_is_packed_into_a_tuple() -> None:
    files = [
        f for folder in ("gateway_core", "plugins", "dev", "tools", "contrib") for f in (ROOT / folder).rglob("*.py")
    ]
    texts = {f: text for f in files if "*(" in (text := f.read_text(encoding="utf-8"))}
    assert [f"{f.relative_to(ROOT)}:{line}" for f, text in texts.items() for line in packed(text)] == []
