"""What several commands need: the config's paths, settings, output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from ..contract.errors import TidegateError

if TYPE_CHECKING:
    from rich.console import Console

    from ..runtime.settings import Settings

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

    from ..runtime.settings import Settings

    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as e:
        first = e.errors()[0]
        name = str(first["loc"][0])
        place = f"--{name.replace('_', '-')}" if name in given else f"TIDEGATE_{name.upper()}"
        raise typer.BadParameter(f"{place}: {_expected(first)}, not {first['input']!r}") from None


def _expected(error: Any) -> str:
    """What pydantic expected, in plain words."""
    match error["type"], error.get("ctx", {}):
        case "literal_error", {"expected": values}:
            return f"expected {values}"
        case "greater_than_equal", {"ge": bound}:
            return f"expected at least {bound:g}"
        case "less_than_equal", {"le": bound}:
            return f"expected at most {bound:g}"
        case (("int_parsing" | "int_from_float"), _):
            return "expected a whole number"
        case "float_parsing", _:
            return "expected a number"
    return str(error["msg"])


def colours(stream: TextIO) -> bool:
    """Whether text on this stream may have colours."""
    return stream.isatty() and "NO_COLOR" not in os.environ


def console(*, stderr: bool = False) -> Console:
    """A console on the stream as it is now."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=False)


def print_json(document: Any) -> None:
    """A document on standard output: indented on a terminal, else on one line."""
    print(json.dumps(document, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False, default=str))


def one_line(text: Any, width: int = 80) -> str:
    """Text for a cell: one line, cut."""
    flat = " ".join(str(text or "").split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
