"""What several commands need: the config's paths, settings, output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from ..errors import TidegateError

if TYPE_CHECKING:
    from ..settings import Settings

DEFAULT_CONFIG = Path("tidegate.yaml")


class CommandError(TidegateError):
    """A command failed; the text says why. Exit code 1."""


def config_paths(paths: Sequence[Path] | None) -> list[Path]:
    """The config: what was named, else `TIDEGATE_CONFIG` (several with `:` between), else ./tidegate.yaml."""
    if paths:
        return list(paths)
    if named := os.environ.get("TIDEGATE_CONFIG"):
        return [Path(p) for p in named.split(os.pathsep) if p]
    if DEFAULT_CONFIG.exists():
        return [DEFAULT_CONFIG]
    raise typer.BadParameter(f"no config: name a file or directory, set TIDEGATE_CONFIG, or write ./{DEFAULT_CONFIG}")


def settings(**flags: Any) -> Settings:
    """The process's settings: flags that were given win over the environment."""
    from pydantic import ValidationError

    from ..model_errors import explain
    from ..settings import Settings

    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as e:
        name = str(e.errors()[0]["loc"][0])
        place = f"--{name.replace('_', '-')}" if name in given else f"TIDEGATE_{name.upper()}"
        raise typer.BadParameter(f"{place}: {next(explain(e, given, Settings)).message}") from None


def colours(stream: TextIO) -> bool:
    """Whether text on this stream may have colours."""
    return stream.isatty() and "NO_COLOR" not in os.environ


def print_json(document: Any) -> None:
    """A document on standard output: indented on a terminal, else on one line."""
    print(json.dumps(document, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False, default=str))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, with columns as wide as their longest text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def discard_output() -> None:
    """Discards standard output, whose reader has seen enough: Python would complain about it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
