"""`tidegate dlq`: names, arguments and help of its commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

dlq = typer.Typer(help="Look at dead letters and replay them.", no_args_is_help=True)

Config = Annotated[
    list[Path] | None,
    typer.Option(
        "--config", "-c", help="Config files or directories. Default: $TIDEGATE_CONFIG, else ./tidegate.yaml."
    ),
]
DataDir = Annotated[Path | None, typer.Option(help="Where the gateway keeps its state. [TIDEGATE_DATA_DIR]")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Trigger = Annotated[str | None, typer.Option(help="Only letters of this trigger (or bridge).")]
Reason = Annotated[str | None, typer.Option(help="Only letters whose reason has this in it.")]
Broker = Annotated[str | None, typer.Option(help="Only letters of this broker.")]


@dlq.command("list")
def list_(
    config: Config = None,
    data_dir: DataDir = None,
    broker: Broker = None,
    trigger: Trigger = None,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """List dead letters, oldest first."""
    from .dlq import Query, Stores, list_letters

    list_letters(Stores.of(config, data_dir), Query(broker, trigger, reason), as_json=as_json)


@dlq.command()
def show(
    id_: Annotated[str, typer.Argument(metavar="ID", help="As `dlq list` shows it.")],
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Show one dead letter whole: why, attributes, data."""
    from .dlq import Stores, show_letter

    show_letter(Stores.of(config, data_dir), id_, as_json=as_json)


@dlq.command()
def replay(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="As `dlq list` shows them.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All letters (that the other options leave).")] = False,
    to: Annotated[str | None, typer.Option(help="Send them here; default is their broker's ingress.")] = None,
    broker: Broker = None,
    trigger: Trigger = None,
    reason: Reason = None,
    retry: Annotated[int, typer.Option(min=0, help="Tries after one that failed for now (503, no answer).")] = 5,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be sent.")] = False,
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Send the original events again, and take those that were accepted out of the dead letter.

    An event that is sent to its broker goes to all triggers that match it, not only to the one that failed.
    """
    from .dlq import Query, Stores
    from .replay import Replay, replay_letters

    if bool(ids) == all_:
        raise typer.BadParameter("name letters, or say --all")
    query = Query(broker, trigger, reason, frozenset(ids or ()))
    plan = Replay(to, retry, dry_run, as_json)
    raise typer.Exit(replay_letters(Stores.of(config, data_dir), query, plan))
