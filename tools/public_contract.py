"""The public contract as text: the public names of `gateway_core.contract`, of `gateway_testing` and of some modules of
other plugins, with signatures.

It is read from the source, so the text doesn't depend on the Python that runs this.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tree import CORE, PLUGINS, module_path

PACKAGES = (
    CORE / "contract",
    *(PLUGINS[f"gateway_{name}"] for name in ("testing", "options", "signing", "transport")),
)
MODULES = (
    PLUGINS["gateway_access"] / "config.py",
    PLUGINS["gateway_access"] / "gate.py",
    PLUGINS["gateway_api"] / "routes.py",
    PLUGINS["gateway_cloudevents"] / "bindings.py",
    PLUGINS["gateway_cloudevents"] / "event_json.py",
    PLUGINS["gateway_terminal"] / "cards.py",
    PLUGINS["gateway_terminal"] / "tables.py",
)
"""Modules that plugins of third parties may import; what lies beside them is their plugin's own."""

HEAD = """\
# The public contract: what plugins import. Written by `make docs`; do not edit.
# A change of this file is a change that plugin authors see: say so in changes/.
"""
_SPECIAL = ("__init__", "__call__", "__enter__", "__aenter__", "__eq__", "__lt__", "__len__", "__iter__", "__aiter__")


def public_contract() -> str:
    """One section for each module, in the order of their names."""
    lines: list[str] = [HEAD]
    for file in [*(f for package in PACKAGES for f in sorted(package.rglob("*.py"))), *MODULES]:
        if names := list(_names(ast.parse(file.read_text(encoding="utf-8")).body)):
            lines += [f"[{_module(file)}]", *names, ""]
    return "\n".join(lines).rstrip() + "\n"


def _module(file: Path) -> str:
    parts = module_path(file).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if _public(node.name):
                yield _function(node)
            case ast.ClassDef() if _public(node.name):
                bases = ", ".join(map(ast.unparse, [*node.bases, *(k.value for k in node.keywords)]))
                yield f"class {node.name}({bases})" if bases else f"class {node.name}"
                yield from (f"    {line}" for line in _names(node.body))
            case ast.AnnAssign(target=ast.Name(id=name)) if _public(name):
                yield f"{name}: {ast.unparse(node.annotation)}{_value(node.value)}"
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                yield from (f"export {name}" for name in ast.literal_eval(node.value))
            case ast.Assign(targets=[ast.Name(id=name)]) if _public(name):
                yield f"{name}{_value(node.value)}"


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    marks = [ast.unparse(d) for d in node.decorator_list]
    before = "".join(f"@{m} " for m in marks if m in ("property", "classmethod", "staticmethod", "overload"))
    head = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{before}{head} {node.name}({ast.unparse(node.args)}){returns}"


def _value(node: ast.expr | None) -> str:
    """A default or a constant; what is long is an implementation, and may change."""
    text = "" if node is None else ast.unparse(node)
    return "" if not text else f" = {text}" if len(text) <= 100 else " = …"


def _public(name: str) -> bool:
    return name in _SPECIAL or not name.startswith("_")
