"""`tidegate plugins`."""

from __future__ import annotations

from ..registry import Registry
from . import common, tables


def list_plugins(*, as_json: bool) -> None:
    """All offers: kind, name, sentence, plugin, distribution, and what is missing here."""
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
    rows += [
        {
            "kind": "command",
            "name": name,
            "summary": command.summary,
            "plugin": plugin,
            "distribution": registry.plugins[plugin],
            "missing": "",
            "extra": "",
        }
        for name, (command, plugin) in sorted(registry.commands.items())
    ]
    if as_json:
        common.print_json(rows)
        return
    # what every row would say is left out, for the width of a terminal
    columns = ["kind", "name", "plugin", "distribution", "missing", "summary"]
    columns = [c for c in columns if c != "missing" or any(row[c] for row in rows)]
    columns = [c for c in columns if c != "distribution" or len({row[c] for row in rows}) > 1]
    tables.print_table("Components", columns, [[row[c] for c in columns] for row in rows])
