"""Capability cards for people: what a source, a sink or a channel promises."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees

WORKERS = {
    "all": "It runs in each of several workers, with events of its own.",
    "share": "It runs in each of several workers, with a share of the events.",
    "one": "It runs in one of several workers only.",
    "one or share": "It runs in one of several workers, or in all with a share each, as its options say.",
}

DEDUPLICATES = {"yes": "Events with the same key are stored once (`deduplicate`).", "no": "It can't."}


def card(guarantees: Guarantees) -> list[tuple[str, str]]:
    """The lines of a card: a heading and a text."""
    modes = f" ({', '.join(guarantees.modes)})" if guarantees.modes else ""
    return [
        ("delivery", guarantees.delivery),
        ("acknowledged", guarantees.acknowledged),
        ("redelivery", guarantees.redelivery),
        ("order", guarantees.order),
        ("workers", WORKERS[guarantees.workers]),
        ("back-pressure", guarantees.back_pressure),
        ("binding", guarantees.binding + modes),
        ("credentials", guarantees.credentials),
        *([("deduplicates", DEDUPLICATES[guarantees.deduplicates])] if guarantees.deduplicates else []),
    ]


def card_lines(guarantees: Guarantees, width: int) -> list[str]:
    """The same as text, folded to a terminal of this width."""
    import textwrap

    rows = card(guarantees)
    indent = max(len(heading) for heading, _ in rows) + 4
    return [
        line
        for heading, text in rows
        for line in textwrap.wrap(
            text,
            max(width, indent + 20),
            initial_indent=f"  {heading}".ljust(indent),
            subsequent_indent=" " * indent,
            break_long_words=False,
        )
    ]
