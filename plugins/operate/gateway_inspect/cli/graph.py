"""`tidegate graph`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import typer
from gateway_api.client.remote import remote

from gateway_core.contract.cli import common
from gateway_core.contract.cli.exit_codes import OK

from ..graph.svg import svg
from ..graph.text import dot, mermaid
from ..graph.topology import Topology, from_document, topology

_DRAW: dict[str, Callable[[Topology], str]] = {"mermaid": mermaid, "dot": dot, "svg": svg}


def draw(paths: Sequence[Path] | None, form: str, output: Path | None, admin: str | None, data_dir: Path | None) -> int:
    """Draws the topology of a config or of a running gateway; returns the exit code."""
    if (admin or data_dir) and paths:
        raise typer.BadParameter("a running gateway has its own config: pass either files, or --admin or --data-dir")
    found = _asked(admin, data_dir) if admin or data_dir else _offline(paths)
    if form == "json":
        common.print_json(found.document())
        return OK
    text = _DRAW[form](found)
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")
    return OK


def _asked(admin: str | None, data_dir: Path | None) -> Topology:
    with remote(admin, data_dir) as gateway:
        return from_document(gateway.ask("GET", "graph"))


def _offline(paths: Sequence[Path] | None) -> Topology:
    from gateway_core.contract.configs import installed, load, offline

    registry = installed()
    config = load(common.config_paths(paths), registry)
    return topology(config, offline(config, registry))
