"""`tidegate dlq replay` without an address: the running gateway hands each event to the trigger that gave it up."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

import msgspec
from gateway_api.client.remote import Remote, remote
from gateway_api.client.running import is_running

from gateway_core.contract.cli import common
from gateway_core.contract.cli.exit_codes import FAULT, OK
from gateway_core.contract.one_line import one_line
from gateway_core.contract.outcome import Stage

from ..dead_letters import Query, of_events
from .dlq import Where, asked

_POLL_S, _SLOWEST_S = 0.05, 1.0


def replay_at_triggers(where: Where, query: Query, *, dry_run: bool, as_json: bool) -> int:
    """Starts a replay in the gateway, waits for its end, and says what came of it. Returns the exit code."""
    if where.key_files:
        raise common.CommandError("a running gateway uses its own keys: combine --key-file with --to or --all-triggers")
    if where.admin is None and not is_running(common.settings(data_dir=where.data_dir)):
        raise common.CommandError("the gateway isn't running: start it, or pass an address with --to")
    with remote(where.admin, where.data_dir) as gateway:
        rows, left_out = _rows(where, query), _left_out(where, query)
        if dry_run:
            return _would(rows, left_out, as_json=as_json)
        counts = _replayed(gateway, query) if rows else {"replayed": 0, "refused": 0, "skipped": 0, "left": 0}
    if as_json:
        common.print_json({**counts, "dry_run": False})
    else:
        print(f"{counts['replayed']} replayed, {counts['left']} left{left_out}")
    return OK if not counts["left"] else FAULT


def _rows(where: Where, query: Query) -> list[dict[str, Any]]:
    """The rows of the selected dead letters. Raises `CommandError` if one of the ids is missing."""
    all_ = asked(where, query).rows
    rows = [row for row in all_ if not query.ids or row["id"] in query.ids]
    if missing := query.ids - {row["id"] for row in rows}:
        other = of_events(missing, ((row["id"], row["event_id"]) for row in all_))
        raise common.CommandError(f"no dead letter has the id {', '.join(sorted(missing))}{other}")
    return rows


def _left_out(where: Where, query: Query) -> str:
    """How many are not sent because their triggers have got the events since."""
    if query.redelivered is not False:
        return ""
    count = len(asked(where, replace(query, redelivered=True)).rows)
    return f"; {count} redelivered since, left out: --redelivered sends them" if count else ""


def _would(rows: list[dict[str, Any]], left_out: str, *, as_json: bool) -> int:
    for row in rows if not as_json else ():
        to = f"trigger {row['trigger']} alone" if row["broker"] else f"bridge {row['trigger']}"
        to = to if row["stage"] != Stage.DECODE else "nowhere: it was never an event"
        print(f"{row['id']}  {one_line(row['type'])} {one_line(row['event_id'])} -> {one_line(to)}")
    if as_json:
        common.print_json({"replayed": 0, "refused": 0, "skipped": 0, "left": len(rows), "dry_run": True})
    else:
        print(f"{len(rows)} would be sent{left_out}")
    return OK


def _replayed(gateway: Remote, query: Query) -> dict[str, int]:
    chosen = {"broker": query.broker, "trigger": query.trigger, "reason": query.reason}
    wanted: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    since = "any" if query.redelivered is None else "yes" if query.redelivered else "no"
    wanted |= {"ids": sorted(query.ids)} if query.ids else {"all": True, "redelivered": since}
    body = msgspec.json.encode({**wanted, "rate": 0})
    replay = gateway.ask("POST", "replays", body=body, media="application/json")
    wait = _POLL_S
    while replay["state"] in ("waiting", "running"):
        time.sleep(wait)
        wait = min(2 * wait, _SLOWEST_S)
        replay = gateway.ask("GET", "replays", replay["id"])
    for fault in replay["faults"]:
        print(f"{fault['id']}: {one_line(fault['reason'], 300)}", file=sys.stderr)
    if replay["detail"]:
        print(one_line(replay["detail"], 300), file=sys.stderr)
    counts = {name: int(replay[name]) for name in ("refused", "skipped", "left")}
    return {"replayed": int(replay["total"]) - counts["left"], **counts}
