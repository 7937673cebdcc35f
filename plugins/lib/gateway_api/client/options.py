"""Options of commands that ask a running gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AdminAddress = Annotated[str | None, typer.Option("--admin", help="Address of the admin API.")]

# for commands that read a config unless one of these names a running gateway
RunningAdmin = Annotated[str | None, typer.Option("--admin", help="Ask the gateway with this admin API instead.")]
RunningDataDir = Annotated[Path | None, typer.Option(help="Ask the gateway that runs with this data directory.")]
