"""`tidegate plugins`."""

from __future__ import annotations

from gateway_terminal.tables import print_table

from gateway_core.cli import common
from gateway_core.config.registry import Registry


def list_plugins(*, as_json: bool) -> None:
    """All offers: kind, name, summary, plugin, distribution, and missing libraries."""
    registry = Registry.installed()
    rows = [
        {
            "kind": offer.kind,
            "name": offer.component.name,
            "summary": offer.component.summary,
            "plugin": offer.plugin,
            "distribution": registry.plugins[offer.plugin],
            "missing": offer.missing,
            "extra": offer.component.extra,
        }
        for offer in registry.offers()
    ]
    others = [
        *(("command", name, offered.summary, plugin) for name, (offered, plugin) in registry.commands.items()),
        *(("config section", name, offered.summary, plugin) for name, (offered, plugin) in registry.sections.items()),
        *(("document kind", name, offered.summary, plugin) for name, (offered, plugin) in registry.documents.items()),
        *(("runner", name, offered.summary, plugin) for name, (offered, plugin) in registry.runners.items()),
        *(("service", name, offered.summary, plugin) for name, (offered, plugin) in registry.services.items()),
    ]
    rows += [
        {
            "kind": kind,
            "name": name,
            "summary": summary,
            "plugin": plugin,
            "distribution": registry.plugins[plugin],
            "missing": "",
            "extra": "",
        }
        for kind, name, summary, plugin in sorted(others)
    ]
    if as_json:
        common.print_json(rows)
        return
    # columns with the same value in every row are left out, to fit a terminal
    columns = ["kind", "name", "plugin", "distribution", "missing", "summary"]
    columns = [c for c in columns if c != "missing" or any(row[c] for row in rows)]
    columns = [c for c in columns if c != "distribution" or len({row[c] for row in rows}) > 1]
    print_table("Components", columns, [[row[c] for c in columns] for row in rows])
