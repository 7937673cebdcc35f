"""`tidegate tap`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from gateway_api.client.remote import Remote, remote

from gateway_core.contract.cli import common
from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.cli.exit_codes import FAULT, OK

QUIET_S = 30.0
"""The gateway sends something every five seconds: after this many seconds of silence it is gone."""
_HEAD = ("specversion", "id", "source", "type", "eventID", "eventType", "cloudEventsVersion")


def show_tap(
    choice: Mapping[str, Any], count: int | None, admin: str | None, data_dir: Path | None, *, as_json: bool
) -> int:
    """Shows events until it has shown `count`, the gateway stops, or Ctrl-C. Returns the exit code."""
    shown = dropped = 0
    query = {name: value for name, value in choice.items() if value}
    with remote(admin, data_dir) as gateway:
        try:
            for kind, line in events(gateway, query):
                if kind == "dropped":
                    dropped += line["dropped"]
                    _say(f"{line['dropped']} events skipped because they came too fast")
                elif kind == "end":
                    _say(line["reason"])
                elif kind == "tap":
                    shown += 1
                    common.print_json(line) if as_json else print("\n".join(as_lines(line)))
                    sys.stdout.flush()
                    if shown == count:
                        break
        except KeyboardInterrupt:
            print(file=sys.stderr)
    if dropped:
        _say(f"{shown} events shown, {dropped} skipped")
    return OK if count is None or shown == count else FAULT


def _say(text: str) -> None:
    print(f"tidegate: {text}", file=sys.stderr, flush=True)


def events(gateway: Remote, query: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The stream's events as (kind, JSON value). Raises `CommandError` if the gateway disappears."""
    kind, ended = "", False
    try:
        for line in gateway.lines("tap", query=query, quiet_s=QUIET_S):
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                ended = kind == "end"
                yield kind, json.loads(value)
    except httpx.HTTPError as e:
        raise CommandError(f"the gateway is gone: {e}") from e
    if not ended:
        raise CommandError("the gateway is gone")


def as_lines(line: Mapping[str, Any]) -> Iterator[str]:
    """One event as lines of text: what happened, then attributes, then data."""
    at = line["at"][11:23]
    if line["kind"] == "refused":
        yield f"{at}  refused at {line['broker']}, {line['code']}: {line['reason']}"
        return
    event = line["event"]
    head = "  ".join(str(event[n]) for n in ("type", "eventType", "source", "id", "eventID") if n in event)
    yield f"{at}  {_what(line)}  {head}"
    others = [f"{name}={value}" for name, value in event.items() if name not in _HEAD]
    size = "no data" if line["bytes"] is None else f"{line['bytes']} bytes"
    yield "    " + "  ".join([*others, size])
    data = line.get("data", line.get("data_base64"))
    if data:
        yield from (f"    | {text}" for text in data.splitlines())


def _what(line: Mapping[str, Any]) -> str:
    if line["kind"] == "accepted":
        return str(line["broker"])
    who = line["trigger"]
    if line["kind"] == "dead_lettered":
        return f"{who}: in the dead letter after {line['attempts']} attempts, {line['reason']}"
    took = "" if line["ms"] is None else f" in {line['ms']:g} ms"
    if line["delivered"]:
        return f"{who}: delivered{took}"
    return f"{who}: failed{took}, {line['reason']}"
