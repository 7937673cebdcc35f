"""Shared parts of the log's commands."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

DataDir = Annotated[Path, typer.Option("--data-dir", envvar="TIDEGATE_DATA_DIR", help="The gateway's data directory.")]
Broker = Annotated[str, typer.Option("--broker", help="The broker whose log it is.")]
DATA_DIR = Path("tidegate-data")


def folder_of(data_dir: Path, broker: str) -> Path:
    """The folder of a broker's log; ends the command if there is none."""
    folder = data_dir / "log" / broker
    if not folder.is_dir():
        others = sorted(f.name for f in data_dir.glob("log/*"))
        remedy = f"name a broker with --broker: {', '.join(others)}" if others else "name another with --data-dir"
        fail(f"there is no log of broker {broker!r} in {data_dir}: {remedy}")
    return folder


def checked(call: Any) -> Any:
    """The result of a call; ends the command if the log can't be read."""
    try:
        return call()
    except sqlite3.Error as e:
        fail(f"the log can't be read: {e}")


def fail(message: str) -> NoReturn:
    """Ends the command with an error."""
    typer.echo(f"tidegate: {message}", err=True)
    raise typer.Exit(1)


def table(head: list[str], rows: list[list[Any]]) -> None:
    """Prints a table on a terminal, else one line of `name=value` pairs for each row."""
    if not sys.stdout.isatty():
        for row in rows:
            typer.echo(" ".join(f"{name}={value}" for name, value in zip(head, row, strict=True)))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    made = Table(*head, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for row in rows:
        made.add_row(*map(str, row))
    Console().print(made)
