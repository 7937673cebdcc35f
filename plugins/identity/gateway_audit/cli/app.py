"""`tidegate audit`: its arguments and help."""

from __future__ import annotations

from typing import Annotated

import typer

from gateway_core.contract.cli.options import DataDir


def audit(
    data_dir: DataDir = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Also show lines as they come, until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Show the last N lines; 0: all.")] = 50,
    denied: Annotated[bool, typer.Option("--denied", help="Only attempts that were denied.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the lines as they are: JSON.")] = False,
) -> None:
    """Show the audit log: who changed the gateway, and who was refused.

    It reads the files in the data directory; the gateway need not run.
    """
    from .show import show

    raise typer.Exit(show(data_dir, follow=follow, lines=lines, denied=denied, as_json=as_json))
