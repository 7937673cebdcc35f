"""Capabilities are declared once, as Protocols, and nothing looks for them by the name of an attribute."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gateway_core.contract import capabilities

ROOT = Path(__file__).parents[2]
PROBES = {"getattr", "hasattr"}
PROTOCOLS = [c for c in vars(capabilities).values() if isinstance(c, type) and getattr(c, "_is_protocol", False)]
NAMES = {
    name
    for protocol in PROTOCOLS
    if protocol.__module__ == capabilities.__name__
    for name in [*vars(protocol).get("__annotations__", ()), *vars(protocol)]
    if not name.startswith("_")
}


def probes(text: str) -> list[str]:
    """The names that a module's code looks for by `getattr` or `hasattr`."""
    if not any(probe in text for probe in PROBES):
        return []
    return [
        argument.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PROBES
        for argument in node.args[1:2]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


@pytest.mark.slow
def test_no_code_probes_for_a_capability() -> None:
    assert {"pulls", "in_flight", "most_in_flight", "replies", "take_over", "longest_s", "preview", "find"} <= NAMES
    files = [f for root in ("gateway_core", "plugins", "dev") for f in (ROOT / root).rglob("*.py")]
    assert len(files) > 200
    found = {str(f.relative_to(ROOT)): set(probes(f.read_text(encoding="utf-8"))) & NAMES for f in files}
    assert {file: names for file, names in found.items() if names} == {}


@pytest.mark.parametrize("code", ["getattr(source, 'pulls', False)", "if hasattr(sink, 'preview'): ..."])
def test_a_probe_is_found(code: str) -> None:
    assert set(probes(code)) & NAMES


def test_a_wrapper_gets_the_capabilities_of_what_it_wraps() -> None:
    class Sink:
        replies = True

        def preview(self, event: object) -> str:
            return "shown"

    class Wrapper: ...

    wrapper = Wrapper()
    capabilities.lend(wrapper, Sink(), (capabilities.Previewing, capabilities.Gathering))
    assert isinstance(wrapper, capabilities.Previewing)
    assert wrapper.preview(None) == "shown"  # type: ignore[arg-type, comparison-overlap]
    assert not isinstance(wrapper, capabilities.Gathering | capabilities.Replying)
