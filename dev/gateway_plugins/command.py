"""The command `tidegate plugin`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway_core.contract.cli.options import Json

from .new import Kind

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def _plugin() -> None:
    """Write a plugin's package, and check one."""


@app.command()
def new(
    kind: Annotated[Kind, typer.Argument(help="What the plugin offers.")],
    name: Annotated[str, typer.Argument(help="The word that a config uses: my-queue.")],
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Where to write it; by default ./tidegate-NAME.", file_okay=False)
    ] = None,
) -> None:
    """Write the package of a new plugin: a small component that works, its tests, a page and a CI file.

    Exit codes: 0 written, 1 the name is taken or the folder is not empty.
    """
    from .new import write

    root = write(kind, name, folder)
    typer.echo(f"written: {root}")
    typer.echo(f"next: cd {root} && pip install -e . 'tidegate[dev]' pytest && pytest && tidegate plugin check")


@app.command()
def check(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The package's folder, by default this one.", file_okay=False)
    ] = Path(),
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Download nothing: the environment uses the libraries of the current one."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a plugin's package in the form that its users will get.

    Builds the wheel, looks at what is in it, installs it into a new environment, and checks there: it loads, every
    option is described and has a valid default, its tests pass, the configs on its pages have no fault. Shows what its
    sources, sinks and channels promise.

    Exit codes: 0 no problems (there may be warnings), 1 problems, 2 there is no package, 3 the environment
    could not be made.
    """
    from .check import check_package

    raise typer.Exit(check_package(folder, offline=offline, as_json=as_json))
