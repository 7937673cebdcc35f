"""Commands about this installation."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from gateway_core.cli.options import Json

Shell = Literal["bash", "zsh", "fish", "powershell"]


def version(as_json: Json = False) -> None:
    """Print the version, and whether the hot modules are compiled."""
    import platform

    from gateway_core import __version__
    from gateway_core.cli.common import print_json

    if as_json:
        # `platform.platform()` would start a process
        machine = f"{platform.system()}-{platform.release()}-{platform.machine()}"
        built = {"build": build(), "python": platform.python_version(), "platform": machine}
        print_json({"version": __version__, **built})
    else:
        typer.echo(f"tidegate {__version__} ({build()})")


def build() -> Literal["pure", "compiled"]:
    """Which build runs: "compiled" if Python found the compiled modules of the wheel."""
    from importlib.machinery import ExtensionFileLoader
    from importlib.util import find_spec

    spec = find_spec("gateway_core.contract.event")
    return "compiled" if spec is not None and isinstance(spec.loader, ExtensionFileLoader) else "pure"


def completion(shell: Annotated[Shell, typer.Argument(help="Your shell.")]) -> None:
    """Print the completion script of a shell.

    bash: [bold]source <(tidegate completion bash)[/bold]
    """
    from typer._completion_shared import get_completion_script

    from gateway_core.cli.app import COMPLETE

    typer.echo(get_completion_script(prog_name="tidegate", complete_var=COMPLETE, shell=shell))
