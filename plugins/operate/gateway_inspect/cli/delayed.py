"""`tidegate delayed`."""

from __future__ import annotations

import json
from pathlib import Path

from gateway_api.client.remote import remote

from gateway_core.contract.cli import common
from gateway_core.contract.cli.common import aligned
from gateway_core.contract.cli.exit_codes import FAULT, OK


def list_delayed(trigger: str, limit: int, admin: str | None, data_dir: Path | None, *, as_json: bool) -> None:
    """Shows what waits for a trigger."""
    with remote(admin, data_dir) as gateway:
        found = gateway.ask("GET", "triggers", trigger, "delayed", query={"limit": str(limit)})
    if as_json:
        common.print_json(found)
        return
    within = ", ".join(
        f"{count} within a{'n' if word == 'hour' else ''} {word}" for word, count in found["within"].items()
    )
    print(f"{found['count']} events wait for {trigger}: {within}")
    if rows := [(e["due"], e["id"], e["source"], e["type"], e["place"]) for e in found["events"]]:
        print("\n".join(aligned([("DUE", "ID", "SOURCE", "TYPE", "PLACE"), *rows])))


def change_delayed(what: str, trigger: str, id: str, source: str, admin: str | None, data_dir: Path | None) -> int:
    """Cancels an event that waits, or delivers it now; returns the exit code."""
    body = json.dumps({"id": id, "source": source}).encode()
    with remote(admin, data_dir) as gateway:
        found = gateway.ask("POST", "triggers", trigger, "delayed", what, body=body, media="application/json")
    done = "cancelled" if what == "cancel" else "due now"
    print(f"{found['count']} {done}")
    return OK if found["count"] else FAULT
