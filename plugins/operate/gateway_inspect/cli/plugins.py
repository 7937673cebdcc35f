"""`tidegate plugins`."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from difflib import get_close_matches
from typing import Any

from gateway_terminal.cards import card_lines
from gateway_terminal.tables import print_table

from gateway_core.contract.cli import common
from gateway_core.contract.configs import Registry, installed
from gateway_core.contract.offer import Offer


def list_plugins(name: str | None = None, *, as_json: bool) -> None:
    """All offers: kind, name, summary, plugin, distribution, and missing libraries. With a name, only components with
    this name, or of this plugin, with what they promise. Raises `CommandError` if there are none."""
    registry = installed()
    offers = registry.offers()
    if name is not None:
        found = [offer for offer in offers if name in (offer.component.name, offer.plugin)]
        if not found:
            known = {word for offer in offers for word in (offer.component.name, offer.plugin)}
            near = "".join(f"; did you mean {word}?" for word in get_close_matches(name, known, 1))
            raise common.CommandError(f"no component or plugin is called {name!r}{near}")
        offers = found
    rows = [_row(registry, offer) for offer in offers] + (_others(registry) if name is None else [])
    if as_json:
        common.print_json(rows)
    elif name is not None:
        print("\n\n".join("\n".join(_details(registry, offer)) for offer in offers))
    else:
        _print(rows)


def _row(registry: Registry, offer: Offer) -> dict[str, Any]:
    guarantees = offer.component.guarantees
    return {
        "kind": offer.kind,
        "name": offer.component.name,
        "summary": offer.component.summary,
        "plugin": offer.plugin,
        "distribution": registry.plugins[offer.plugin],
        "missing": offer.missing,
        "extra": offer.component.extra,
        "guarantees": asdict(guarantees) if guarantees else None,
    }


def _others(registry: Registry) -> list[dict[str, Any]]:
    """What plugins offer besides components."""
    others = [
        *(("command", name, offered.summary, plugin) for name, (offered, plugin) in registry.commands.items()),
        *(("config section", name, offered.summary, plugin) for name, (offered, plugin) in registry.sections.items()),
        *(("document kind", name, offered.summary, plugin) for name, (offered, plugin) in registry.documents.items()),
        *(("runner", name, offered.summary, plugin) for name, (offered, plugin) in registry.runners.items()),
        *(("service", name, offered.summary, plugin) for name, (offered, plugin) in registry.services.items()),
    ]
    return [
        {
            "kind": kind,
            "name": name,
            "summary": summary,
            "plugin": plugin,
            "distribution": registry.plugins[plugin],
            "missing": "",
            "extra": "",
            "guarantees": None,
        }
        for kind, name, summary, plugin in sorted(others)
    ]


def _details(registry: Registry, offer: Offer) -> list[str]:
    """A component in full, as lines."""
    component, width = offer.component, shutil.get_terminal_size((120, 24)).columns
    urls = f"; URLs: {', '.join(f'{scheme}://' for scheme in component.schemes)}" if component.schemes else ""
    return [
        f"{offer.kind} {component.name}: {component.summary}",
        f"  plugin {offer.plugin} of {registry.plugins[offer.plugin]}{urls}",
        *([f"  {offer.missing}"] if offer.missing else []),
        *(card_lines(component.guarantees, width) if component.guarantees else []),
    ]


def _print(rows: list[dict[str, Any]]) -> None:
    # columns with the same value in every row are left out, to fit a terminal
    columns = ["kind", "name", "plugin", "distribution", "missing", "summary"]
    columns = [c for c in columns if c != "missing" or any(row[c] for row in rows)]
    columns = [c for c in columns if c != "distribution" or len({row[c] for row in rows}) > 1]
    print_table("Components", columns, [[row[c] for c in columns] for row in rows])
