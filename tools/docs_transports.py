"""The page of transports: capability cards of sources, sinks and channels, and the suites that each passes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from gateway_terminal.cards import card

from gateway_core.config.registry import Offer
from gateway_core.contract.component import Guarantees, Kind

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
KINDS: dict[Kind, tuple[str, str]] = {
    "source": ("Sources", "Bring events in."),
    "sink": ("Sinks", "Send events out."),
    "channel": ("Channels", "Keep a broker's events between ingress and delivery."),
    "dead_letter": ("Dead letters", "Keep undeliverable events. Every sink can be one, too."),
}


def transports(offers: list[Offer]) -> list[str]:
    """The page's lines: a table and the cards of each kind."""
    lines = [
        "# Transports",
        "",
        "What each [source](glossary.md#source), [sink](glossary.md#sink) and [channel](glossary.md#channel) promises.",
        "The texts are the components' own capability cards, which `tidegate plugins NAME` shows, too.",
        "[Components](components.md) has their options, and [what delivery promises](../discussion/delivery.md) what",
        "the gateway adds to them.",
        "",
        "The column *suites* names the classes of `gateway_testing.suites` whose whole contract the component passes,",
        "each with the tests that say so. [Test a plugin](../howto/test-a-plugin.md) says what a suite proves.",
    ]
    for kind, (title, about) in KINDS.items():
        mine = [offer for offer in offers if offer.kind == kind and offer.component.guarantees]
        lines += ["", f"## {title}", "", about, "", *_table(mine)]
        for offer in mine:
            lines += ["", f"### {kind}: {offer.component.name}", "", offer.component.summary, "", *_card(_of(offer))]
    return lines


def _of(offer: Offer) -> Guarantees:
    assert offer.component.guarantees
    return offer.component.guarantees


def _table(offers: list[Offer]) -> Iterator[str]:
    yield "| | delivery | workers | content modes | binding | suites |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for offer in offers:
        name, g = offer.component.name, _of(offer)
        link = f"[`{name}`](#{offer.kind}-{name})"
        yield f"| {link} | {g.delivery} | {g.workers} | {', '.join(g.modes)} | {g.binding} | {_suites(offer)} |"


def _card(guarantees: Guarantees) -> Iterator[str]:
    for heading, text in card(guarantees):
        yield f"- **{heading}**: {text}"


def _suites(offer: Offer) -> str:
    tested = suites().get((offer.kind, offer.component.name), {})
    return ", ".join(f"[{suite}](../../{file})" for (suite, file) in sorted(tested))


@cache
def suites() -> dict[tuple[str, str], dict[tuple[str, str], str]]:
    """What the tests run: (kind, component) -> (suite, file) -> a test class.

    A test class is one that derives from a suite, also by others of its file, and builds the component by name.
    """
    found: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if "Suite)" not in text:
            continue
        classes = {node.name: node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)}
        for name in classes:
            lineage = list(_lineage(name, classes))
            suite = next((base for base in lineage if base.endswith("Suite") and base not in classes), None)
            if suite is None or not name.startswith("Test"):
                continue
            for built in (b for c in lineage if c in classes for b in _built(classes[c])):
                found.setdefault(built, {})[suite, str(file.relative_to(ROOT))] = name
    return found


def _lineage(name: str, classes: dict[str, ast.ClassDef]) -> Iterator[str]:
    """A class and its bases; those of other files by their name."""
    yield name
    if name in classes:
        for base in classes[name].bases:
            yield from _lineage(ast.unparse(base).rpartition(".")[2], classes)


def _built(cls: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The components that a class builds: `kit.sink("http", …)`."""
    for node in ast.walk(cls):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="kit"), attr=kind), args=[ast.Constant(value=str(name)), *_]
            ):
                yield kind, name
