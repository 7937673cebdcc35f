"""`tidegate auth`: names, arguments and help of its commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway_core.contract.cli.options import Json

auth = typer.Typer(help="Manage API keys and passwords of senders.", no_args_is_help=True, add_completion=False)
key = typer.Typer(help="Manage the API keys in a file.", no_args_is_help=True, add_completion=False)
auth.add_typer(key, name="key")

KeyFile = Annotated[Path, typer.Option("--file", "-f", help="The file of keys, as the option `file` of `api_key`.")]
DEFAULT_KEYS = Path("keys.json")


@key.command()
def new(
    name: Annotated[str, typer.Argument(help="The sender who gets the key. Several keys may have the same name.")],
    file: KeyFile = DEFAULT_KEYS,
    expires: Annotated[
        str | None, typer.Option(help="When it expires: after 90d or 12h, or at 2027-01-31T00:00:00Z. Default: never.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a key and print it, only this once: the file holds only its hash.

    A running gateway accepts the key within seconds; the other keys stay valid.
    """
    from .keys import new_key

    new_key(file, name, expires, as_json=as_json)


@key.command("list")
def list_(file: KeyFile = DEFAULT_KEYS, as_json: Json = False) -> None:
    """List the keys: id, name, and when they expire."""
    from .keys import list_keys

    list_keys(file, as_json=as_json)


@key.command()
def revoke(
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Ids, as shown by `key list`.")],
    file: KeyFile = DEFAULT_KEYS,
) -> None:
    """Remove keys from the file. A running gateway refuses them within seconds."""
    from .keys import revoke_keys

    revoke_keys(file, ids)


@auth.command()
def password(
    name: Annotated[str | None, typer.Argument(help="The user.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Write the hash to this file of users, as the option `file` of `basic`."),
    ] = None,
) -> None:
    """Make the scrypt hash of a password.

    Asks for the password, or reads it from standard input if that is not a terminal. Without --file, prints the hash.
    """
    from .passwords import new_password

    if (name is None) != (file is None):
        raise typer.BadParameter("pass a NAME and --file, or none of them")
    new_password(name, file)
