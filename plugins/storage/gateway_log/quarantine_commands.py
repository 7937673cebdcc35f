"""The command `tidegate log quarantine`."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway_core.contract.cli.options import Json

from .export import line_of
from .options import DATA_DIR, Broker, DataDir, fail, folder_of, table
from .quarantine import entries, event_of

app = typer.Typer(help="Show unreadable events of the log.", no_args_is_help=True, add_completion=False)

Position = Annotated[int, typer.Argument(help="As `list` shows it.", min=0)]


@app.command("list")
def list_(data_dir: DataDir = DATA_DIR, broker: Broker = "default", as_json: Json = False) -> None:
    """List the quarantined events by position."""
    found = _all(data_dir, broker)
    if as_json:
        typer.echo(json.dumps([{k: v for k, v in e.items() if k != "row"} for e in found]))
        return
    if not found:
        typer.echo("the quarantine is empty")
        return
    rows = [
        [e["position"], e["shard"], e["last"] - e["first"] + 1, "yes" if "row" in e else "no", e["found"], e["reason"]]
        for e in found
    ]
    table(["position", "shard", "events", "row", "found", "reason"], rows)


@app.command()
def show(position: Position, data_dir: DataDir = DATA_DIR, broker: Broker = "default", as_json: Json = False) -> None:
    """Show the readable parts of one event. Some part of it is not what was written."""
    found = next((e for e in _all(data_dir, broker) if e["position"] == position), None)
    if found is None:
        fail(f"there is no quarantined event at position {position}: run `tidegate log quarantine list`")
    if as_json:
        typer.echo(json.dumps(found))
        return
    row = found.pop("row", None)
    for name, value in found.items():
        typer.echo(f"{name}: {value}")
    for name, value in (row or {}).items():
        typer.echo(f"row.{name}: {_readable(name, value)}")


@app.command()
def export(
    data_dir: DataDir = DATA_DIR,
    broker: Broker = "default",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The output file; default: stdout.")] = None,
    events: Annotated[
        bool, typer.Option("--events", help="As CloudEvents, if the row can be read as one. Check them first.")
    ] = False,
) -> None:
    """Write everything as JSON lines, bytes as base64."""
    found = _all(data_dir, broker)
    lines = list(_events(found) if events else map(json.dumps, found))
    text = "".join(line + "\n" for line in lines)
    try:
        if output is None:
            sys.stdout.write(text)
        else:
            output.write_text(text, encoding="utf-8")
    except OSError as e:
        fail(f"{output} can't be written: {e.strerror}")
    if events and len(lines) < len(found):
        typer.echo(f"{len(found) - len(lines)} of {len(found)} can't be read as events", err=True)


def _all(data_dir: Path, broker: str) -> list[dict[str, Any]]:
    folder = folder_of(data_dir, broker)
    try:
        return list(entries(folder))
    except OSError as e:
        fail(f"the quarantine can't be read: {e}")


def _events(found: list[dict[str, Any]]) -> Iterator[str]:
    line: Callable[..., str] = line_of
    for entry in found:
        try:
            yield line(event_of(entry))
        except ValueError:
            continue


def _readable(name: str, value: Any) -> str:
    if value is None or name not in ("key", "attributes", "data"):
        return str(value)
    content = base64.b64decode(value)
    try:
        return content.decode()
    except UnicodeDecodeError:
        return repr(content)
