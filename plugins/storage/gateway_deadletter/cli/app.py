"""`tidegate dlq`: names, arguments and help of its commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway_core.contract.cli.options import Config, DataDir, Json

dlq = typer.Typer(help="Show dead letters and replay them.", no_args_is_help=True, add_completion=False)

Admin = Annotated[
    str | None,
    typer.Option(help="Ask the gateway whose admin API listens here, HOST:PORT or a URL. [TIDEGATE_ADMIN]"),
]
Trigger = Annotated[str | None, typer.Option(help="Only dead letters of this trigger or bridge.")]
Reason = Annotated[str | None, typer.Option(help="Only dead letters whose reason contains this text.")]
Broker = Annotated[str | None, typer.Option(help="Only dead letters of this broker.")]

Pending = Annotated[
    bool,
    typer.Option("--pending", help="Only those whose trigger has not got the event since; the default of replays."),
]
Redelivered = Annotated[
    bool,
    typer.Option(
        "--redelivered", help="Only those whose event a replay of past events, or a rewind, has delivered since."
    ),
]


def _since(pending: bool, redelivered: bool, default: bool | None) -> bool | None:
    return default if not (pending or redelivered) else None if pending and redelivered else redelivered


KeyFile = Annotated[
    list[Path] | None,
    typer.Option(help="A file of more keys for encrypted dead letters, one per line. Reads the files itself."),
]


@dlq.command("list")
def list_(
    config: Config = None,
    data_dir: DataDir = None,
    admin: Admin = None,
    broker: Broker = None,
    trigger: Trigger = None,
    reason: Reason = None,
    pending: Pending = False,
    redelivered: Redelivered = False,
    key_file: KeyFile = None,
    as_json: Json = False,
) -> None:
    """List dead letters, oldest first.

    Asks the gateway at --admin or the one running with the data directory. With --config, or if no gateway runs, it
    reads the files itself.
    """
    from ..dead_letters import Query
    from .dlq import Where, list_dead_letters

    since = _since(pending, redelivered, None)
    where, query = Where(config, data_dir, admin, key_file or ()), Query(broker, trigger, reason, redelivered=since)
    raise typer.Exit(list_dead_letters(where, query, as_json=as_json))


@dlq.command()
def show(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Its id, as shown by `dlq list`.")],
    config: Config = None,
    data_dir: DataDir = None,
    admin: Admin = None,
    key_file: KeyFile = None,
    as_json: Json = False,
) -> None:
    """Show one dead letter in full: reason, attributes, data."""
    from .dlq import Where, show_dead_letter

    show_dead_letter(Where(config, data_dir, admin, key_file or ()), id_, as_json=as_json)


@dlq.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files of dead letters, as `file:` writes them.")],
    broker: Annotated[
        str | None, typer.Option(help="The broker that they are assigned to (default: the broker of their trigger).")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also import what was imported before, and replayed or removed since.")
    ] = False,
    move: Annotated[
        bool, typer.Option("--move", help="Remove them from the files once they are safe in their new place.")
    ] = False,
    config: Config = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Take over dead letters that a `file:` sink has written, or that an earlier config has left behind, so that they
    can be listed and replayed.

    The files stay as they are, unless you say --move. What was imported before is not imported again, even if it was
    replayed or removed.
    """
    from .dlq import Where
    from .importing import import_dead_letters

    stores = Where(config, data_dir).stores()
    raise typer.Exit(import_dead_letters(stores, files, broker, again=again, move=move, as_json=as_json))


@dlq.command()
def replay(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Ids of dead letters, as `dlq list` shows them."),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All dead letters that match the other options.")] = False,
    to: Annotated[
        str | None, typer.Option(help="Where to send them (default: each only to the trigger that gave it up).")
    ] = None,
    all_triggers: Annotated[
        bool,
        typer.Option(
            "--all-triggers",
            help="Send them to the ingress of their broker, and so to all triggers that match, also to those that have "
            "them.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before --all-triggers.")] = False,
    broker: Broker = None,
    trigger: Trigger = None,
    reason: Reason = None,
    pending: Pending = False,
    redelivered: Redelivered = False,
    retry: Annotated[
        int, typer.Option(min=0, help="Number of retries after a temporary failure (503, no response).")
    ] = 5,
    header: Annotated[
        list[str] | None,
        typer.Option(help="A header for each request, NAME=VALUE; NAME=@FILE reads the value from a file."),
    ] = None,
    ca_file: Annotated[Path | None, typer.Option(help="Authorities to trust (PEM) instead of the system's.")] = None,
    cert_file: Annotated[Path | None, typer.Option(help="The client's certificate chain, PEM.")] = None,
    cert_key_file: Annotated[Path | None, typer.Option(help="Its private key, if it is not in --cert-file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent.")] = False,
    config: Config = None,
    data_dir: DataDir = None,
    admin: Admin = None,
    key_file: KeyFile = None,
    as_json: Json = False,
) -> None:
    """Send the original events again, and remove the accepted ones from the dead letter.

    --all leaves those out whose trigger has got the event since, unless you say --redelivered (only these), or
    --pending --redelivered (both).

    The running gateway hands each to the trigger or bridge that gave it up, and to no other. --retry, --header and the
    options of TLS are for --to and --all-triggers, which send requests.
    """
    from ..dead_letters import Query
    from .dlq import Where
    from .replay import Replay, replay_dead_letters
    from .replay_running import replay_at_triggers

    if bool(ids) == all_:
        raise typer.BadParameter("pass ids of dead letters, or --all")
    if to is not None and all_triggers:
        raise typer.BadParameter("--to names one address, --all-triggers the ingress of each broker: give one of them")
    since = _since(pending, redelivered, False if all_ else None)
    query = Query(broker, trigger, reason, frozenset(ids or ()), redelivered=since)
    if to is None and not all_triggers:
        where = Where(config, data_dir, admin, key_file or ())
        raise typer.Exit(replay_at_triggers(where, query, dry_run=dry_run, as_json=as_json))
    tls = ca_file, cert_file, cert_key_file
    plan = Replay(to, retry, dry_run, as_json, header or (), tls, confirmed=yes or to is not None)
    raise typer.Exit(replay_dead_letters(Where(config, data_dir, key_files=key_file or ()).stores(), query, plan))
