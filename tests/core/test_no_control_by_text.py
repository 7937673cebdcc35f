"""Nothing is decided by a text for people: the reason of an outcome or of a condition is only shown."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXTS = {"reason", "message", "detail", "last_error"}
QUESTIONS = {"startswith", "endswith", "removeprefix", "removesuffix"}


def decided_by_text(tree: ast.AST) -> Iterator[str]:
    """Comparisons and searches of attributes that hold texts."""
    for node in ast.walk(tree):
        asked: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in QUESTIONS:
            asked = [node.func.value]
        elif isinstance(node, ast.Compare):
            constant = any(
                isinstance(n, ast.Constant) and isinstance(n.value, str) for n in (node.left, *node.comparators)
            )
            asked = [node.left, *node.comparators] if constant else []
        for expression in asked:
            if isinstance(expression, ast.Attribute) and expression.attr in TEXTS:
                yield ast.unparse(node)


def test_what_is_found() -> None:
    found = decided_by_text(
        ast.parse("if o.reason.startswith('encode: ') or 'x' in o.reason or o.message == 'y': pass")
    )
    assert sorted(found) == ["'x' in o.reason", "o.message == 'y'", "o.reason.startswith('encode: ')"]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["gateway_core", "plugins", "dev"])
def test_no_decision_depends_on_a_text_for_people(folder: str) -> None:
    found = {
        f"{file.relative_to(ROOT)}: {text}"
        for file in (ROOT / folder).rglob("*.py")
        for text in decided_by_text(ast.parse(file.read_text()))
    }
    # Python's own `UnicodeDecodeError` has no other field for it
    assert found - {"plugins/operate/gateway_inspect/tap/tap.py: e.reason == 'unexpected end of data'"} == set()
