"""The command `tidegate spark`."""

from __future__ import annotations

import typer

from .maintenance.command import compact, retain, tables
from .rejoin import rejoin
from .submit.command import submit, wheel

app = typer.Typer(help="Maintain Spark tables.", no_args_is_help=True, add_completion=False)


@app.callback()
def _group() -> None:
    """Maintain Spark tables."""


app.command()(tables)
app.command()(compact)
app.command()(retain)
app.command()(rejoin)
app.command()(submit)
app.command()(wheel)
