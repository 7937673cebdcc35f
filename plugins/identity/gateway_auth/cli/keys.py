"""`tidegate auth key`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer
from gateway_audit_log.log import record_command
from gateway_terminal import tables

from gateway_core.contract.cli import common
from gateway_core.contract.durations import duration_ns, is_duration
from gateway_core.contract.moments import MOST_NS, SECOND_NS, time_ns_of

from ..edited_file import read_bytes
from ..keys import Key, add_key, read_keys, remove_keys


def _when(text: str, now: datetime) -> datetime:
    """Raises `typer.BadParameter`."""
    try:
        return _time_of(text, now)
    except OverflowError:
        raise typer.BadParameter(f"--expires: {text!r} is too far in the future: leave it out for never") from None


def _time_of(text: str, now: datetime) -> datetime:
    """Raises `typer.BadParameter` and `OverflowError`."""
    try:
        if is_duration(text):
            then = now + timedelta(seconds=duration_ns(text) // SECOND_NS)
        else:
            if (ns := time_ns_of(text)) == MOST_NS:
                raise OverflowError
            then = datetime.fromtimestamp(ns // SECOND_NS, UTC)
    except ValueError as e:
        raise typer.BadParameter(f"--expires: {e}; or a duration such as 90d, 12h or 30m") from None
    if then <= now:
        raise typer.BadParameter(f"--expires: {text!r} is in the past")
    return then.astimezone(UTC).replace(microsecond=0)


def new_key(file: Path, name: str, expires: str | None, *, as_json: bool) -> None:
    """Prints the key on standard output, and what else there is to know on standard error."""
    key, text = add_key(file, name, None if expires is None else _when(expires, datetime.now(UTC)))
    _record("key.new", key, file)
    if as_json:
        common.print_json({"key": text, **_row(key, datetime.now(UTC))})
        return
    until = f", valid until {_time(key.expires)}" if key.expires else ""
    print(f"key {key.id} of {key.name} is in {file}{until}; it is shown only now:", file=sys.stderr)
    print(text)


def list_keys(file: Path, *, as_json: bool) -> None:
    now = datetime.now(UTC)
    rows = [_row(key, now) for key in read_keys(read_bytes(file), file).values()]
    if as_json:
        common.print_json(rows)
    elif rows:
        tables.print_table("API keys", tuple(rows[0]), [list(row.values()) for row in rows])
    else:
        print("no keys")


def revoke_keys(file: Path, ids: list[str]) -> None:
    for key in remove_keys(file, ids):
        _record("key.revoke", key, file)
        print(f"key {key.id} of {key.name} is revoked")


def _record(what: str, key: Key, file: Path) -> None:
    record_command(common.settings().data_dir, what, "done", id=key.id, name=key.name, file=str(file))


def _row(key: Key, now: datetime) -> dict[str, str | None]:
    state = "expired" if key.expired(now) else "valid"
    expires = _time(key.expires) if key.expires else None
    return {"id": key.id, "name": key.name, "state": state, "created": _time(key.created), "expires": expires}


def _time(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
