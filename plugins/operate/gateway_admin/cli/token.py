"""`tidegate admin token`: shows, makes and replaces tokens of the admin API."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import typer
from gateway_api.roles import Role
from gateway_api.tokens import NAME_RULE, derived, is_name, read_token, token_file, write_token
from gateway_audit_log.log import audit_log, local_user

from gateway_core.contract.cli import common
from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.cli.exit_codes import OK

_DAY_S = 24 * 3600


def token(data_dir: Path | None, name: str | None, role: Role | None, days: float | None, *, rotate: bool) -> int:
    """Prints a token: the gateway's own, or one for `name`. Returns the exit code. Raises `CommandError`."""
    if name is None and (role is not None or days is not None):
        raise typer.BadParameter("a token with a role or an end needs a --name, for the audit log")
    if name is not None and not is_name(name):
        raise typer.BadParameter(f"a name is made of {NAME_RULE}", param_hint="--name")
    folder = common.settings(data_dir=data_dir).data_dir
    audit = audit_log(folder)
    own = _rotated(folder) if rotate else _read(folder)
    if rotate:
        audit.record(local_user(), "token.rotate", "command", "done")
        print("all tokens made before have ended", file=sys.stderr)
    if name is None:
        print(own)
        return OK
    end_s = int(time.time() + days * _DAY_S) if days is not None else 0
    given: Role = role or "viewer"
    audit.record(local_user(), "token.new", "command", "done", name=name, role=given, days=days)
    print(derived(own, given, name, end_s))
    return OK


def _read(folder: Path) -> str:
    try:
        return read_token(folder)
    except FileNotFoundError:
        raise CommandError(
            f"there is no token in {folder}: the gateway makes it when it starts; or make one with --rotate"
        ) from None
    except (OSError, ValueError) as e:
        raise CommandError(_reason(folder, e)) from e


def _rotated(folder: Path) -> str:
    try:
        return write_token(folder)
    except OSError as e:
        raise CommandError(_reason(folder, e)) from e


def _reason(folder: Path, error: Exception) -> str:
    return f"{token_file(folder)}: {error.strerror}" if isinstance(error, OSError) else str(error)
