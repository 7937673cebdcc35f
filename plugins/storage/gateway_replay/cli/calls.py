"""What the commands ask of the running gateway, and how they show its answers."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from gateway_api.client.remote import Remote, remote
from gateway_api.client.running import is_running
from gateway_api.routes import JSON
from gateway_terminal import tables

from gateway_core.contract.cli import common
from gateway_core.contract.cli.exit_codes import FAULT, OK
from gateway_core.contract.one_line import one_line

from ..job import ENDED

_POLL_S, _SLOWEST_S = 0.05, 1.0
_REPLAYS = "event-replays"
_COLUMNS = ("id", "trigger", "state", "count", "delivered", "given_up", "left", "per_second", "from", "to")


@dataclass(frozen=True, slots=True)
class Where:
    """The gateway to ask, and whether to print JSON."""

    data_dir: Path | None
    admin: str | None
    as_json: bool

    def check(self) -> None:
        """Raises `CommandError` if no gateway runs."""
        if self.admin is None and not is_running(common.settings(data_dir=self.data_dir)):
            raise common.CommandError("the gateway isn't running: start it first; it sends the events")


def start_replay(where: Where, asked: Mapping[str, Any], *, dry_run: bool, wait: bool) -> int:
    """Starts a replay, or counts what it would send. Returns the exit code."""
    where.check()
    with remote(where.admin, where.data_dir) as gateway:
        if dry_run:
            return _counted(where, _post(gateway, asked, _REPLAYS, "preview"), "would be sent")
        found = _post(gateway, asked, _REPLAYS)
        pause = _POLL_S
        while found["state"] == "counting" or (wait and found["state"] not in (*ENDED, "paused")):
            time.sleep(pause)
            pause = min(2 * pause, _SLOWEST_S)
            found = gateway.ask("GET", _REPLAYS, found["id"])
    return _told(where, found)


def list_replays(where: Where) -> int:
    """Lists all. Returns the exit code."""
    where.check()
    with remote(where.admin, where.data_dir) as gateway:
        found = gateway.ask("GET", _REPLAYS)["items"]
    if where.as_json:
        common.print_json(found)
    else:
        tables.print_table("replays", _COLUMNS, [[row[name] for name in _COLUMNS] for row in found])
    return OK


def about(where: Where, id_: str, change: str = "") -> int:
    """Shows a replay, after this change. Returns the exit code."""
    where.check()
    with remote(where.admin, where.data_dir) as gateway:
        found = gateway.ask("POST", _REPLAYS, id_, change) if change else gateway.ask("GET", _REPLAYS, id_)
    return _told(where, found)


def set_back(where: Where, trigger: str, to: str, *, yes: bool, dry_run: bool) -> int:
    """Sets a trigger back, once somebody has agreed. Returns the exit code."""
    where.check()
    asked = {"trigger": trigger, "to": to}
    with remote(where.admin, where.data_dir) as gateway:
        if dry_run or not yes:
            found = _post(gateway, asked, "rewinds", "preview")
            if dry_run:
                return _counted(where, found, "would be sent again")
            if not sys.stdin.isatty():
                raise common.CommandError(f"{found['count']} events would be sent again: if you mean that, add --yes")
            print(f"{_line(found)} would be sent again to trigger {trigger}.")
            if input("Set it back? [y/N] ").strip().lower() not in ("y", "yes"):
                return FAULT
        return _counted(where, _post(gateway, asked, "rewinds"), "are sent again")


def _post(gateway: Remote, asked: Mapping[str, Any], *path: str) -> Any:
    return gateway.ask("POST", *path, body=msgspec.json.encode(asked), media=JSON)


def _counted(where: Where, found: Mapping[str, Any], what: str) -> int:
    if where.as_json:
        common.print_json(found)
        return OK
    print(f"{_line(found)} {what}")
    for name, count in found["types"].items():
        print(f"{count:>10}  {one_line(name, 200)}")
    return OK


def _line(found: Mapping[str, Any]) -> str:
    when = f", accepted from {found['first']} to {found['last']}," if found["count"] else ""
    return f"{found['count']} events{when}" if found["count"] != 1 else f"1 event, accepted at {found['first']},"


def _told(where: Where, found: Mapping[str, Any]) -> int:
    if where.as_json:
        common.print_json(found)
    else:
        counts = f"{found['delivered']} of {found['count']} delivered"
        more = [
            f"{found[name]} {text}"
            for name, text in (
                ("given_up", "in the dead letter" if not found["to_sink"] else "not taken"),
                ("unwanted", "no longer wanted"),
                ("gone", "gone"),
                ("left", "left"),
            )
            if found[name]
        ]
        print(f"{found['id']}  {found['state']}: {', '.join([counts, *more])}")
        for fault in found["faults"]:
            print(f"{fault['id']}: {one_line(fault['reason'], 300)}", file=sys.stderr)
        if found["detail"]:
            print(one_line(found["detail"], 300), file=sys.stderr)
    bad = found["state"] == "failed" or (found["state"] == "done" and (found["given_up"] or found["gone"]))
    return FAULT if bad else OK
