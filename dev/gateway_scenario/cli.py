"""`tidegate test`: its arguments and help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway_core.contract.cli.options import Json, Paths


def play_scenarios(
    paths: Paths = None,
    scenario: Annotated[
        list[str] | None, typer.Option(help="Only scenarios with this name; * matches any text. Can be repeated.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Also write a JUnit report to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Run the scenario tests of a config, offline and within seconds.

    They are in its sections `tests:` and in files *.scenario.yaml next to it.

    Exit codes: 0 all passed, 1 some failed, there are none, or the config has errors.
    """
    from .command import play

    raise typer.Exit(play(paths, scenario or [], junit, as_json=as_json))
