"""`tidegate replay` and `tidegate rewind`: names, arguments and help."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gateway_core.contract.cli.options import DataDir, Json


class _StartsByName(TyperGroup):
    """`tidegate replay TRIGGER` means `tidegate replay start TRIGGER`, unless it is the name of a command."""

    default_command = "start"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = [self.default_command, *args]
        found: list[str] = super().parse_args(ctx, args)
        return found


replay = typer.Typer(
    cls=_StartsByName,
    help="Send past events of a channel to one trigger again: `tidegate replay TRIGGER --from 2h`.",
    no_args_is_help=True,
    add_completion=False,
)

Admin = Annotated[
    str | None,
    typer.Option(help="Ask the gateway whose admin API listens here, HOST:PORT or a URL. [TIDEGATE_ADMIN]"),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="Its id, as shown by `replay list`.")]
_WHEN = "a time (2026-11-28T08:00:00Z) or how long ago (2h)"


@replay.command()
def start(
    trigger: Annotated[str, typer.Argument(help="The trigger that gets the events, and no other.")],
    from_: Annotated[str, typer.Option("--from", help=f"Events accepted since then: {_WHEN}.")],
    to: Annotated[str, typer.Option(help=f"Events accepted before that: {_WHEN}.")] = "now",
    filter: Annotated[
        list[str] | None,
        typer.Option(
            help="Only events that match this, too: NAME=VALUE or CloudEvents SQL. Repeat it: all must match."
        ),
    ] = None,
    rate: Annotated[float, typer.Option(help="Events per second at most; 0 for no limit.")] = 0,
    order: Annotated[
        str, typer.Option(help="key: one event of each key at once. Default: the order that the trigger has.")
    ] = "",
    mark: Annotated[bool, typer.Option("--mark", help="Add the attribute `tidegatereplay` to each event.")] = False,
    to_sink: Annotated[
        str,
        typer.Option(help="Send the events to this URL in the trigger's place, without its dead letter."),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the events.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when it has ended.")] = False,
    data_dir: DataDir = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Send past events to one trigger again.

    The events that match its filter go through its own sink, retries and dead letter, and to no other trigger. It runs
    in the gateway, and goes on after restarts.
    """
    from .calls import Where, start_replay

    asked = {
        "trigger": trigger, "from": from_, "to": to, "filters": filter or [], "rate": rate, "order": order,
        "mark": mark, "to_sink": to_sink,
    }  # fmt: skip
    raise typer.Exit(start_replay(Where(data_dir, admin, as_json), asked, dry_run=dry_run, wait=wait))


@replay.command("list")
def list_(data_dir: DataDir = None, admin: Admin = None, as_json: Json = False) -> None:
    """List replays, oldest first."""
    from .calls import Where, list_replays

    raise typer.Exit(list_replays(Where(data_dir, admin, as_json)))


@replay.command()
def status(id_: Id, data_dir: DataDir = None, admin: Admin = None, as_json: Json = False) -> None:
    """Show how far a replay is."""
    from .calls import Where, about

    raise typer.Exit(about(Where(data_dir, admin, as_json), id_))


@replay.command()
def pause(id_: Id, data_dir: DataDir = None, admin: Admin = None, as_json: Json = False) -> None:
    """Pause a replay. It stays paused over restarts."""
    from .calls import Where, about

    raise typer.Exit(about(Where(data_dir, admin, as_json), id_, "pause"))


@replay.command()
def resume(id_: Id, data_dir: DataDir = None, admin: Admin = None, as_json: Json = False) -> None:
    """Continue a paused replay."""
    from .calls import Where, about

    raise typer.Exit(about(Where(data_dir, admin, as_json), id_, "resume"))


@replay.command()
def cancel(id_: Id, data_dir: DataDir = None, admin: Admin = None, as_json: Json = False) -> None:
    """End a replay. What it has not sent is not sent."""
    from .calls import Where, about

    raise typer.Exit(about(Where(data_dir, admin, as_json), id_, "cancel"))


def rewind(
    trigger: Annotated[str, typer.Argument(help="The trigger.")],
    to: Annotated[str, typer.Option(help=f"Where it goes on: {_WHEN}.")],
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be sent again.")] = False,
    data_dir: DataDir = None,
    admin: Admin = None,
    as_json: Json = False,
) -> None:
    """Set a trigger back: it gets everything since then again, and new events after that.

    Shows first how many events are sent again, and asks. The trigger is paused while it is set back.
    """
    from .calls import Where, set_back

    raise typer.Exit(set_back(Where(data_dir, admin, as_json), trigger, to, yes=yes, dry_run=dry_run))
