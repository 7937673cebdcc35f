"""The command `tidegate log`."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .export import events, line_of
from .reader import LogReader, shard_file
from .shard import file_bytes
from .verify import faults

app = typer.Typer(help="Look into the durable log.", no_args_is_help=True, add_completion=False)

DataDir = Annotated[Path, typer.Option("--data-dir", envvar="TIDEGATE_DATA_DIR", help="The gateway's data directory.")]
Broker = Annotated[str, typer.Option("--broker", help="The broker whose log it is.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_DATA_DIR = Path("tidegate-data")


@app.command()
def info(data_dir: DataDir = _DATA_DIR, broker: Broker = "default", as_json: Json = False) -> None:
    """Show what the log holds, shard by shard."""
    folder = _folder(data_dir, broker)
    shards = []
    with LogReader(folder) as reader:
        for shard in reader.shards():
            first, following = _checked(lambda n=shard: reader.bounds(n))
            size = file_bytes(shard_file(folder, shard))
            shards.append({"shard": shard, "first": first, "next": following, "events": following - first})
            shards[-1]["bytes"] = size
    total = sum(s["events"] for s in shards)
    if as_json:
        typer.echo(json.dumps({"folder": str(folder.absolute()), "events": total, "shards": shards}))
        return
    _table(["shard", "first", "next", "events", "bytes"], [[s[k] for k in s] for s in shards])


@app.command()
def verify(data_dir: DataDir = _DATA_DIR, broker: Broker = "default", as_json: Json = False) -> None:
    """Look for faults in the log's files. Exits with 1 where there is any."""
    found = list(faults(_folder(data_dir, broker)))
    if as_json:
        typer.echo(json.dumps({"ok": not found, "faults": found}))
    else:
        for fault in found:
            typer.echo(fault)
        typer.echo(f"{len(found)} faults" if found else "no faults")
    if found:
        raise typer.Exit(1)


@app.command()
def export(
    data_dir: DataDir = _DATA_DIR,
    broker: Broker = "default",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; standard output else.")] = None,
    start: Annotated[int, typer.Option("--from", min=1, help="The first position.")] = 1,
    end: Annotated[int | None, typer.Option("--to", help="The position to end before.")] = None,
    shard: Annotated[int | None, typer.Option("--shard", min=0, help="Only this shard.")] = None,
    filter_type: Annotated[str | None, typer.Option("--filter-type", help="Only events of this type.")] = None,
    as_json: Json = False,
) -> None:
    """Write events as JSON lines; `--json` changes nothing. Works while the gateway runs."""
    lines = (line_of(e) + "\n" for e in events(_folder(data_dir, broker), shard, start, end, filter_type))
    try:
        if output is None:
            sys.stdout.writelines(lines)
        else:
            with output.open("w", encoding="utf-8") as f:
                f.writelines(lines)
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (sqlite3.Error, ValueError, OSError) as e:
        _fail(f"the log can't be exported: {e}")


def _folder(data_dir: Path, broker: str) -> Path:
    folder = data_dir / "log" / broker
    if not folder.is_dir():
        others = sorted(f.name for f in data_dir.glob("log/*"))
        remedy = f"name a broker with --broker: {', '.join(others)}" if others else "name another with --data-dir"
        _fail(f"there is no log of broker {broker!r} in {data_dir}: {remedy}")
    return folder


def _checked(call: Any) -> Any:
    try:
        return call()
    except sqlite3.Error as e:
        _fail(f"the log can't be read: {e}")


def _fail(message: str) -> None:
    typer.echo(f"tidegate: {message}", err=True)
    raise typer.Exit(1)


def _table(head: list[str], rows: list[list[Any]]) -> None:
    if not sys.stdout.isatty():
        for row in rows:
            typer.echo(" ".join(f"{name}={value}" for name, value in zip(head, row, strict=True)))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*head, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for row in rows:
        table.add_row(*map(str, row))
    Console().print(table)
