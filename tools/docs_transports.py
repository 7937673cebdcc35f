"""The page of transports: capability cards of sources, sinks and channels, and the suites that each passes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from gateway_plugins.suite_use import Uses, suites
from gateway_terminal.cards import card

from gateway_core.contract.component import Guarantees, Kind
from gateway_core.contract.offer import Offer

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "tests" / "faults" / "figures.json"
OTHERWISE = {
    "websocket": "`websocket` is not in this matrix, since no server between sender and gateway stores its events:"
    " [tests of its own](../../tests/websocket/test_websocket_gateway.py) kill the gateway under load and cut the"
    " connections on both sides.",
}
"""Why a transport is not in the fault matrix."""
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
    figures = json.loads(FIGURES.read_text()) if FIGURES.is_file() else {}
    lines += faults(figures)
    # a source with an extra has a server of its own
    left = sorted({o.component.name for o in offers if o.kind == "source" and o.component.extra} - figures.keys())
    for name in left:
        lines += ["", OTHERWISE.get(name, f"Not played yet: {name}.")]
    return lines


def faults(figures: dict[str, dict[str, dict[str, float]]]) -> Iterator[str]:
    """What the fault matrix counted: transport -> scenario -> counts. A scenario that lost events comes first."""
    if not figures:
        return
    yield from ("", "## Faults", "")
    yield "Events go through a real server into the gateway, and out through the same kind of server, while the fault"
    yield "happens so many times. An event counts as lost if the server had acknowledged it to its sender, and it"
    yield "neither arrived nor is in the dead letter; what arrives is compared byte for byte. `tests/faults` plays it,"
    yield "and `tests/faults/figures.json` has the counts."
    yield from ("", "Lost of all acknowledged, and how many arrived again:", "", *_matrix(figures))
    for transport, scenarios in sorted(figures.items()):
        yield from ("", f"### Faults of {transport}", "")
        yield "| what happens | times | acknowledged | dead letters | arrived again | out of order | lost | seconds |"
        yield "| --- " + "| ---: " * 7 + "|"
        for scenario, row in sorted(scenarios.items(), key=lambda item: (-item[1]["lost"], item[0])):
            counts = [row[n] for n in ("faults", "acknowledged", "dead_lettered", "duplicates", "out_of_order")]
            cells = [scenario, *(f"{n:,.0f}" for n in counts), f"**{row['lost']:,.0f}**", f"{row['seconds']:.0f}"]
            yield f"| {' | '.join(cells)} |"


def _matrix(figures: dict[str, dict[str, dict[str, float]]]) -> Iterator[str]:
    """All transports side by side; what one has not played is empty."""
    transports = sorted(figures)
    yield f"| what happens | {' | '.join(transports)} |"
    yield "| --- " + "| --- " * len(transports) + "|"
    for scenario in sorted({name for scenarios in figures.values() for name in scenarios}):
        rows = [figures[transport].get(scenario) for transport in transports]
        cells = [
            f"{r['lost']:,.0f} of {r['acknowledged']:,.0f}, {r['duplicates']:,.0f} again" if r else "" for r in rows
        ]
        yield f"| {' | '.join([scenario, *cells])} |"


def _cell(row: dict[str, float]) -> str:
    return f"{row['lost']:,.0f} of {row['acknowledged']:,.0f}, {row['duplicates']:,.0f} again"


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
    used = _used().get((offer.kind, offer.component.name), set())
    return ", ".join(f"[{suite}](../../{file.relative_to(ROOT)})" for suite, file in sorted(used))


@cache
def _used() -> Uses:
    return suites(sorted((ROOT / "tests").rglob("test_*.py")))
