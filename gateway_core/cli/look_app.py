"""The commands that look into a running gateway: names, arguments and help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from . import complete

DataDir = Annotated[Path | None, typer.Option(help="Where the gateway keeps its state. [TIDEGATE_DATA_DIR]")]
AdminAddress = Annotated[str | None, typer.Option("--admin", help="Address of the admin API.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Sort(StrEnum):
    rate = "rate"
    lag = "lag"
    name = "name"


class Form(StrEnum):
    mermaid = "mermaid"
    dot = "dot"
    svg = "svg"
    json = "json"


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (why, tap, top, graph):
        app.command()(command)


def why(
    id_: Annotated[str, typer.Argument(metavar="ID", help="The event's id.")],
    source: Annotated[str | None, typer.Option(help="Its source, where several have this id.")] = None,
    broker: Annotated[
        str | None, typer.Option(help="Only this broker or bridge.", autocompletion=complete.brokers)
    ] = None,
    admin: AdminAddress = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Say what became of an event: where it is, and for each trigger whether it was delivered, or why not.

    Exit codes: 0 it was found, and all who want it have it; 1 it was not found, or is not delivered (yet).
    """
    from .why import tell_why

    raise typer.Exit(tell_why(id_, source, broker, admin, data_dir, as_json=as_json))


def tap(
    broker: Annotated[
        str | None, typer.Option(help="Only what this broker or bridge accepts.", autocompletion=complete.brokers)
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(
            help="Show the attempts of this trigger or bridge, and what became of them.", autocompletion=complete.ways
        ),
    ] = None,
    filter_: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            help="Only events that match NAME=VALUE (VALUE may end with *), or a CloudEvents SQL expression; may be "
            "repeated, then all must match.",
        ),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many events.")] = None,
    data: Annotated[bool, typer.Option("--data", help="Also show the first 1 KiB of each event's data.")] = False,
    admin: AdminAddress = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Show events live, as a running gateway accepts them, until Ctrl-C.

    Events that come faster than they can be shown are dropped from the view, and counted.
    """
    from .tap import show_tap

    choice = {"broker": broker, "trigger": trigger, "filter": filter_ or [], "data_bytes": "1024" if data else "0"}
    raise typer.Exit(show_tap(choice, count, admin, data_dir, as_json=as_json))


def top(
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    sort: Annotated[Sort, typer.Option(help="What comes first.")] = Sort.rate,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many looks.")] = None,
    admin: AdminAddress = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Show rates and durations of a running gateway, live: q quits, s changes the order.

    Where the output is no terminal, it is tables one after another.
    """
    from .top import show_top

    raise typer.Exit(show_top(admin, data_dir, interval, sort.value, count, as_json=as_json))


def graph(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Config files or directories. Default: $TIDEGATE_CONFIG, else ./tidegate.yaml."),
    ] = None,
    form: Annotated[Form, typer.Option("--format", "-f", help="What is drawn, or written.")] = Form.mermaid,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; standard output else.")] = None,
    admin: Annotated[str | None, typer.Option("--admin", help="Ask the gateway with this admin API instead.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Ask the gateway that runs with this data directory.")] = None,
) -> None:
    """Draw what is connected to what: sources, brokers, triggers with their filters, sinks, dead letters, bridges.

    It is drawn from a config, or with --admin or --data-dir from a gateway that runs.
    """
    from .graph import draw

    raise typer.Exit(draw(paths, form.value, output, admin, data_dir))
