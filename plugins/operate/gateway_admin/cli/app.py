"""Names, arguments and help of the commands that query or change a running gateway."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from gateway_api.client import complete
from gateway_api.client.options import AdminAddress

from gateway_core.contract.cli.options import DataDir, Json

KINDS = ("brokers", "triggers", "bridges", "policies")


def kind_of(word: str) -> str:
    """A kind by its plural or singular. Raises `BadParameter`."""
    plural = word if word.endswith("s") else f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    if plural not in KINDS:
        raise typer.BadParameter(f"{word!r} is not one of {', '.join(KINDS)}")
    return plural


def deletable(word: str) -> str:
    """The one kind that can be deleted. Raises `BadParameter`."""
    if kind_of(word) != "triggers":
        raise typer.BadParameter("only triggers can be deleted; everything else belongs to the config")
    return "triggers"


def _kinds(incomplete: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(incomplete)]


def _deletables(incomplete: str) -> list[str]:
    return ["trigger"] if "trigger".startswith(incomplete) else []


class Output(StrEnum):
    wide = "wide"
    json = "json"
    yaml = "yaml"


class TokenRole(StrEnum):
    metrics = "metrics"
    viewer = "viewer"
    operator = "operator"
    admin = "admin"


Trigger = Annotated[
    str, typer.Argument(help="Its name, as `tidegate get triggers` shows it.", autocompletion=complete.triggers)
]


def status(
    admin: AdminAddress = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Show a running gateway: brokers, triggers, lag. `tidegate top` shows rates, live."""
    from .status import show_status

    raise typer.Exit(show_status(admin, data_dir, as_json=as_json))


def get(
    kind: Annotated[
        str,
        typer.Argument(
            help="What to show; the singular works too.",
            metavar="brokers|triggers|bridges|policies",
            parser=kind_of,
            autocompletion=_kinds,
        ),
    ],
    name: Annotated[str | None, typer.Argument(help="Show only this one.", autocompletion=complete.of_kind)] = None,
    output: Annotated[
        Output | None, typer.Option("--output", "-o", help="A table with more columns, or the full document.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, like -o json.")] = False,
    admin: AdminAddress = None,
    data_dir: DataDir = None,
) -> None:
    """Show brokers, triggers, bridges and policies of a running gateway, with their conditions."""
    from .resources import get as show

    if as_json and output not in (None, Output.json):
        raise typer.BadParameter(f"--json and -o {output} exclude each other: use one")
    form = "json" if as_json else output.value if output else None
    raise typer.Exit(show(kind, name, form, admin, data_dir))


def apply(
    files: Annotated[
        list[Path], typer.Option("--file", "-f", help="A file, a folder, or - for standard input. Can be repeated.")
    ],
    admin: AdminAddress = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Create or change triggers of a running gateway, all or none: a section `triggers:`, or Knative manifests.

    They are stored in the data directory. Exit codes: 0 applied, 1 the config has errors or the gateway refused it.
    """
    from .apply import apply as send

    raise typer.Exit(send(files, admin, data_dir, as_json=as_json))


def delete(
    kind: Annotated[
        str,
        typer.Argument(
            help="Only triggers can be deleted.", metavar="trigger", parser=deletable, autocompletion=_deletables
        ),
    ],
    name: Trigger,
    admin: AdminAddress = None,
    data_dir: DataDir = None,
) -> None:
    """Delete an applied trigger."""
    from .resources import delete as send

    raise typer.Exit(send(name, admin, data_dir))


def pause(trigger: Trigger, admin: AdminAddress = None, data_dir: DataDir = None) -> None:
    """Pause a trigger: no attempt starts, and its events stay in the channel, also across restarts."""
    from .resources import pause as send

    raise typer.Exit(send(trigger, admin, data_dir, resume=False))


def resume(trigger: Trigger, admin: AdminAddress = None, data_dir: DataDir = None) -> None:
    """Resume a paused trigger where it stopped."""
    from .resources import pause as send

    raise typer.Exit(send(trigger, admin, data_dir, resume=True))


def reload(admin: AdminAddress = None, data_dir: DataDir = None) -> None:
    """Make a running gateway read its config again. A config with errors is reported and changes nothing."""
    from .resources import reload as send

    raise typer.Exit(send(admin, data_dir))


def login(
    issuer: Annotated[str, typer.Option(envvar="TIDEGATE_LOGIN_ISSUER", help="The issuer's URL.")],
    client_id: Annotated[
        str, typer.Option(envvar="TIDEGATE_LOGIN_CLIENT_ID", help="The client id that the issuer knows.")
    ],
    scope: Annotated[str, typer.Option(help="The scopes to ask for.")] = "openid email",
    access_token: Annotated[
        bool, typer.Option("--access-token", help="Send the access token, which must be a JWT, not the ID token.")
    ] = False,
    admin: AdminAddress = None,
    data_dir: DataDir = None,
) -> None:
    """Log in to the admin API of a gateway with OpenID Connect (device flow, RFC 8628).

    Open the address that it prints, on any machine. The token is kept in ~/.config/tidegate/logins.json for this
    gateway only. The gateway's config must name the issuer in `operators`.
    """
    from .login import login as log_in

    raise typer.Exit(log_in(admin, data_dir, issuer, client_id, scope, access_token=access_token))


def logout(admin: AdminAddress = None, data_dir: DataDir = None) -> None:
    """Forget the login at a gateway."""
    from .login import logout as log_out

    raise typer.Exit(log_out(admin, data_dir))


admin = typer.Typer(help="Manage who may call the admin API.", no_args_is_help=True, add_completion=False)


@admin.callback()
def _admin() -> None:
    """Manage who may call the admin API."""


@admin.command()
def token(
    name: Annotated[str | None, typer.Option(help="Make a token for this person or program.")] = None,
    role: Annotated[
        TokenRole | None,
        typer.Option(help="What it may do: read metrics, read everything, also pause and reload, or also apply."),
    ] = None,
    days: Annotated[
        float | None, typer.Option(min=0, max=36_500, help="The days until it expires. Default: never.")
    ] = None,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Replace the gateway's token. All others become invalid, too.")
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Print a token of the admin API: the gateway's own, which may do everything, or one for others.

    Send it as `Authorization: Bearer …`. The gateway keeps its own token in its data directory. Tokens for others are
    derived from it and not stored; --role is `viewer` by default. A running gateway notices a new token at once.
    """
    from .token import token as show

    raise typer.Exit(show(data_dir, name, role.value if role else None, days, rotate=rotate))
