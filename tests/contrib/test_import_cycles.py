"""No two modules import each other, directly or through others.

Every import counts: also those for types only, and those inside functions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.tree import CORE, PLUGINS, module_path


def modules() -> dict[str, Path]:
    """All modules of the core and the plugins, by their dotted names."""
    found = {}
    for folder in (CORE, *PLUGINS.values()):
        for file in folder.rglob("*.py"):
            parts = module_path(file).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements in a node, at any depth; `ast.walk` visits their expressions too, which takes much longer."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from statements(child)


def imports(name: str, file: Path, known: Mapping[str, Path]) -> set[str]:
    """The known modules that a module imports. `from package import module` imports the module, not the package."""
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    found: set[str] = set()
    for node in statements(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            full = (f"{start}.{alias.name}" for alias in node.names)
            found.update(module if module in known else start for module in full)
    return (found & known.keys()) - {name}


def cycles(graph: Mapping[str, set[str]]) -> Iterator[frozenset[str]]:
    """The groups of nodes that all reach each other (Tarjan's strongly connected components), of two nodes or more."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(node: str) -> Iterator[frozenset[str]]:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for following in sorted(graph[node]):
            if following not in number:
                yield from visit(following)
                lowest[node] = min(lowest[node], lowest[following])
            elif following in stack:
                lowest[node] = min(lowest[node], number[following])
        if lowest[node] == number[node]:
            start = stack.index(node)
            group, stack[start:] = frozenset(stack[start:]), []
            if len(group) > 1:
                yield group

    for node in sorted(graph):
        if node not in number:
            yield from visit(node)


@pytest.mark.slow
def test_no_modules_import_each_other() -> None:
    known = modules()
    assert len(known) > 200
    found = cycles({name: imports(name, file, known) for name, file in known.items()})
    assert [sorted(group) for group in found] == [], (
        "these modules import each other: move what they share to a module of its own"
    )


def test_cycles_are_found_through_other_modules() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert set(cycles(graph)) == {frozenset("abc"), frozenset("de")}
