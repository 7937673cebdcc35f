"""Options and arguments that several commands share, also those of plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_CONFIG = "Config files or directories. Default: $TIDEGATE_CONFIG, else ./tidegate.yaml."

Paths = Annotated[list[Path] | None, typer.Argument(help=_CONFIG)]
Config = Annotated[list[Path] | None, typer.Option("--config", "-c", help=_CONFIG)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DataDir = Annotated[Path | None, typer.Option(help="Where the gateway keeps its state. [TIDEGATE_DATA_DIR]")]
