"""Finds in tests which suites a component is tested with."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

Uses = dict[tuple[str, str], set[tuple[str, Path]]]
"""(kind, component) -> (suite, file)."""


def suites(files: Iterable[Path]) -> Uses:
    """What tests run. A test class counts if it derives from a suite of `gateway_testing`, also by other classes of its
    file, and builds a component by its name: `kit.sink("http", …)`."""
    found: Uses = {}
    for file in files:
        text = file.read_text(encoding="utf-8")
        if "Suite)" not in text:
            continue
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue  # pytest says where
        classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        for name in classes:
            lineage = list(_lineage(name, classes))
            suite = next((base for base in lineage if base.endswith("Suite") and base not in classes), None)
            if suite is None or not name.startswith("Test"):
                continue
            for built in (b for c in lineage if c in classes for b in _built(classes[c])):
                found.setdefault(built, set()).add((suite, file))
    return found


def _lineage(name: str, classes: dict[str, ast.ClassDef]) -> Iterator[str]:
    """A class and its bases; those of other files by their name."""
    yield name
    if name in classes:
        for base in classes[name].bases:
            yield from _lineage(ast.unparse(base).rpartition(".")[2], classes)


def _built(cls: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for node in ast.walk(cls):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="kit"), attr=kind), args=[ast.Constant(value=str(name)), *_]
            ):
                yield kind, name
