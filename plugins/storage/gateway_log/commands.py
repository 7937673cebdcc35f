"""The command `tidegate log`."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path
from typing import Annotated

import typer

from gateway_core.contract.cli.common import discard_output
from gateway_core.contract.cli.options import Json
from gateway_core.contract.errors import StartError

from . import meta
from .export import events, line_of
from .options import DATA_DIR, Broker, DataDir, checked, fail, folder_of, table
from .other_keys import is_key_folder
from .quarantine_commands import app as quarantine_app
from .reader import LogReader, shard_file
from .repair import repair as repair_log
from .verify import faults, waiting
from .wal_file import file_bytes

app = typer.Typer(help="Inspect and repair the durable log.", no_args_is_help=True, add_completion=False)

app.add_typer(quarantine_app, name="quarantine")


@app.command()
def info(data_dir: DataDir = DATA_DIR, broker: Broker = "default", as_json: Json = False) -> None:
    """Show the contents of the log, shard by shard."""
    folder = folder_of(data_dir, broker)
    shards = []
    with LogReader(folder) as reader:
        for shard in reader.shards():
            first, following = checked(lambda n=shard: reader.bounds(n))
            size = file_bytes(shard_file(folder, shard))
            shards.append({"shard": shard, "first": first, "next": following, "events": following - first})
            shards[-1]["bytes"] = size
    total = sum(s["events"] for s in shards)
    if as_json:
        typer.echo(json.dumps({"folder": str(folder.absolute()), "events": total, "shards": shards}))
        return
    table(["shard", "first", "next", "events", "bytes"], [[s[k] for k in s] for s in shards])


@app.command()
def verify(data_dir: DataDir = DATA_DIR, broker: Broker = "default", as_json: Json = False) -> None:
    """Check the log's files for faults. Exits with 1 if there are any."""
    found = list(faults(folder_of(data_dir, broker)))
    waits = waiting(folder_of(data_dir, broker))
    remedy = f"{meta.remedy(folder_of(data_dir, broker))} while the gateway is stopped"
    told = f"restore the log from a backup, or run {remedy}"
    if all(is_key_folder(fault.partition("/")[0]) for fault in found):
        remedy = told = (
            "all events are there: the next start makes these keys again from the events that the log still has, and"
            " refuses to start if it lacks any"
        )
    if as_json:
        answer = {"ok": not found, "faults": found, "remedy": remedy if found else None, "delayed": waits}
        typer.echo(json.dumps(answer))
    else:
        for name, events in waits.items():
            typer.echo(f"{name}: {events} events wait until they are due")
        for fault in found:
            typer.echo(fault)
        typer.echo(f"{len(found)} faults: {told}" if found else "no faults")
    if found:
        raise typer.Exit(1)


@app.command()
def repair(data_dir: DataDir = DATA_DIR, broker: Broker = "default", as_json: Json = False) -> None:
    """Recover the readable part of a damaged log while no gateway uses it. Reports what is lost, and keeps the old
    files."""
    done = []
    try:
        for line in repair_log(folder_of(data_dir, broker)):
            done.append(line)
            if not as_json:
                typer.echo(line)
    except (StartError, sqlite3.Error, OSError) as e:
        fail(f"the log can't be repaired: {str(e).removeprefix('log: ')}")
    if as_json:
        typer.echo(json.dumps(done))
    elif not done:
        typer.echo("nothing to repair")


@app.command()
def export(
    data_dir: DataDir = DATA_DIR,
    broker: Broker = "default",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The output file; default: stdout.")] = None,
    start: Annotated[int, typer.Option("--from", min=1, help="The first position.")] = 1,
    end: Annotated[int | None, typer.Option("--to", help="The position after the last.")] = None,
    shard: Annotated[int | None, typer.Option("--shard", min=0, help="Only this shard.")] = None,
    filter_type: Annotated[str | None, typer.Option("--filter-type", help="Only events of this type.")] = None,
    as_json: Json = False,
) -> None:
    """Write events as JSON lines; `--json` has no effect. Works while the gateway runs."""
    lines = (line_of(e) + "\n" for e in events(folder_of(data_dir, broker), shard, start, end, filter_type))
    try:
        if output is None:
            sys.stdout.writelines(lines)
        else:
            with output.open("w", encoding="utf-8") as f:
                f.writelines(lines)
    except BrokenPipeError:  # `| head`
        discard_output()
    except (sqlite3.Error, ValueError, OSError) as e:
        fail(f"the log can't be exported: {e}")
