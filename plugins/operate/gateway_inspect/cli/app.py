"""Names, arguments and help of the commands that show what happens to events."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from gateway_api.client import complete
from gateway_api.client.options import AdminAddress, RunningAdmin, RunningDataDir

from gateway_core.contract.cli.options import DataDir, Json, Paths

Broker = Annotated[str | None, typer.Option(help="Only this broker or bridge.", autocompletion=complete.brokers)]


class Sort(StrEnum):
    rate = "rate"
    lag = "lag"
    name = "name"


class Form(StrEnum):
    mermaid = "mermaid"
    dot = "dot"
    svg = "svg"
    json = "json"


def explain(
    event: Annotated[
        Path,
        typer.Argument(
            help="A file of JSON events: one per line, an array, or a single event. Use - for standard input."
        ),
    ],
    paths: Paths = None,
    broker: Broker = None,
    trigger: Annotated[str | None, typer.Option(help="Only this trigger.", autocompletion=complete.triggers)] = None,
    as_: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="SUBJECT", help="Also say who lets this sender in; `anonymous` has no credentials."
        ),
    ] = None,
    authenticator: Annotated[
        str, typer.Option(help="The authenticator that identified the sender. Default: any.")
    ] = "",
    claim: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A claim of the sender: JSON, else text. Can be repeated."),
    ] = None,
    admin: RunningAdmin = None,
    data_dir: RunningDataDir = None,
    as_json: Json = False,
) -> None:
    """Explain what the gateway would do with an event: which triggers match, what they would send, the
    retries. Nothing is sent.

    The answer comes from a config, or with --admin or --data-dir from a running gateway.

    Exit codes: 0 every event matches a trigger, 1 an event is refused or matches no trigger (or the config has errors),
    2 the input is not a JSON event.
    """
    from .explain import explain_events, sender_of

    sender = sender_of(as_, authenticator, claim or ())
    found = explain_events(
        event, paths, broker, trigger, sender=sender, admin=admin, data_dir=data_dir, as_json=as_json
    )
    raise typer.Exit(found)


def why(
    id_: Annotated[str, typer.Argument(metavar="ID", help="The event's id, or its beginning.")],
    source: Annotated[str | None, typer.Option(help="Its source, if several events have this id.")] = None,
    broker: Broker = None,
    admin: AdminAddress = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Show what happened to an event: where it is, and for each trigger whether it was delivered, or why not.

    Exit codes: 0 the event was found and delivered to every trigger that matches, 1 it was not found, or is not
    delivered (yet).
    """
    from .why import show_why

    raise typer.Exit(show_why(id_, source, broker, admin, data_dir, as_json=as_json))


def tap(
    broker: Annotated[
        str | None,
        typer.Option(help="Only events that this broker or bridge accepts.", autocompletion=complete.brokers),
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(
            help="Show the delivery attempts of this trigger or bridge, with their outcomes.",
            autocompletion=complete.triggers_and_bridges,
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
    count: Annotated[int | None, typer.Option(min=1, help="Stop after this many events.")] = None,
    data: Annotated[bool, typer.Option("--data", help="Also show the first 1 KiB of each event's data.")] = False,
    admin: AdminAddress = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Show events live, as a running gateway accepts them, until Ctrl-C.

    If events arrive faster than they can be
    shown, the command skips some and counts them.
    """
    from .tap import show_tap

    choice = {"broker": broker, "trigger": trigger, "filter": filter_ or [], "data_bytes": "1024" if data else "0"}
    raise typer.Exit(show_tap(choice, count, admin, data_dir, as_json=as_json))


delayed = typer.Typer(
    no_args_is_help=True, help="List events that wait until they are due, cancel them, or deliver them now."
)
_TriggerName = Annotated[str, typer.Argument(metavar="TRIGGER", help="The trigger.", autocompletion=complete.triggers)]
_Source = Annotated[str, typer.Option(help="The event's source.")]
_Id = Annotated[str, typer.Argument(metavar="ID", help="The event's id.")]


@delayed.command("list")
def delayed_list(
    trigger: _TriggerName,
    limit: Annotated[int, typer.Option(min=0, max=1000, help="How many events to show.")] = 20,
    admin: AdminAddress = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Count the events that wait for a trigger, and show those that are due first."""
    from .delayed import list_delayed

    list_delayed(trigger, limit, admin, data_dir, as_json=as_json)


@delayed.command("cancel")
def delayed_cancel(
    trigger: _TriggerName, id_: _Id, source: _Source, admin: AdminAddress = None, data_dir: DataDir = None
) -> None:
    """Cancel an event that waits: it is not delivered. The exit code is 1 if there is none."""
    from .delayed import change_delayed

    raise typer.Exit(change_delayed("cancel", trigger, id_, source, admin, data_dir))


@delayed.command("now")
def delayed_now(
    trigger: _TriggerName, id_: _Id, source: _Source, admin: AdminAddress = None, data_dir: DataDir = None
) -> None:
    """Deliver an event that waits now. The exit code is 1 if there is none."""
    from .delayed import change_delayed

    raise typer.Exit(change_delayed("now", trigger, id_, source, admin, data_dir))


def top(
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two updates.")] = 2.0,
    sort: Annotated[Sort, typer.Option(help="Sort order.")] = Sort.rate,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after this many updates.")] = None,
    admin: AdminAddress = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Show rates and durations of a running gateway, live: q quits, s changes the sort order.

    If the output is not a
    terminal, the tables are printed one after another.
    """
    from .top import show_top

    raise typer.Exit(show_top(admin, data_dir, interval, sort.value, count, as_json=as_json))


def graph(
    paths: Paths = None,
    form: Annotated[Form, typer.Option("--format", "-f", help="Output format.")] = Form.mermaid,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Output file (default: standard output).")
    ] = None,
    admin: RunningAdmin = None,
    data_dir: RunningDataDir = None,
) -> None:
    """Draw the topology: sources, brokers, triggers with their filters, sinks, dead letters, bridges.

    It comes from a
    config, or with --admin or --data-dir from a running gateway.
    """
    from .graph import draw

    raise typer.Exit(draw(paths, form.value, output, admin, data_dir))


def schema() -> None:
    """Print the JSON Schema of the config, for editors.

    Write it into a file, and let the config's first line name that file:
    # yaml-language-server: $schema=tidegate.schema.json
    """
    import json

    from gateway_core.contract.configs import installed

    from ..schema import schema as config_schema

    typer.echo(json.dumps(config_schema(installed()), indent=2, ensure_ascii=False))


def plugins(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Only components with this name, or of this plugin, in full.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List all components that are installed, and what they need and promise.

    With a name, show what each source, sink and channel of that name promises: when an event is acknowledged, when it
    is redelivered, order, workers, back-pressure.
    """
    from .plugins import list_plugins

    list_plugins(name, as_json=as_json)
