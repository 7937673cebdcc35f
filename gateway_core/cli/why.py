"""`tidegate why`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import FAULT, OK, common
from .explain import clause_lines
from .remote import Remote, remote

_DONE = ("delivered", "read", "not_matched", "before")


def tell_why(
    id: str, source: str | None, broker: str | None, admin: str | None, data_dir: Path | None, *, as_json: bool
) -> int:
    """Searches until the event is found; returns the exit code."""
    query = {name: value for name, value in {"id": id, "source": source, "broker": broker}.items() if value}
    with remote(admin, data_dir) as gateway:
        document = _search(gateway, query)
    if as_json:
        common.print_json(document)
    else:
        print("\n".join(as_lines(document)))
    ways = [way for event in document["events"] for way in event["ways"]]
    return OK if document["events"] and all(way["state"] in _DONE for way in ways) else FAULT


def _search(gateway: Remote, query: Mapping[str, str]) -> dict[str, Any]:
    searched, rest, shown = 0, None, False
    while True:
        more: dict[str, str] = {} if rest is None else {"rest": json.dumps(rest)}
        document: dict[str, Any] = gateway.ask("GET", "events", query={**query, **more})
        searched += document["searched"]
        rest = document["rest"]
        if document["events"] or rest is None:
            break
        if sys.stderr.isatty():
            shown = True
            print(f"\rsearched {searched:,} events …", end="", file=sys.stderr, flush=True)
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr)
    return {**document, "searched": searched}


def as_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What became of the event, for people."""
    if not document["events"]:
        yield f"no event with the id {document['id']} is known; {document['searched']:,} were searched"
    for event in document["events"]:
        yield "event " + ", ".join(f"{name} {value}" for name, value in event["event"].items())
        if event["position"] is not None:
            yield f"  in the channel of broker {event['broker']} at {event['place']}, received {event['received']}"
        else:
            yield f"  not found in the channel of {event['broker']}"
        if not event["ways"]:
            yield "  there is no trigger"
        for way in event["ways"]:
            yield from (f"  {line}" for line in _way(way))
    for name in document["unsearchable"]:
        yield f"(past events of {name} can't be searched for: only what is on its way, and dead letters)"
    if not document["letters_searched"]:
        yield "(there are too many dead letters to look at all: see `tidegate dlq list`)"


def _way(way: Mapping[str, Any]) -> Iterator[str]:
    yield f"{way['kind']} {way['name']}: {way['state'].replace('_', ' ')}"
    if way["state"] == "not_matched":
        yield from (f"  {line}" for line in clause_lines(way["filter"]))
        return
    yield f"  {way['text']}"
    for failure in way.get("failures", ()):
        yield f"  attempt {failure['attempt']} at {failure['at']}: {failure['reason']}"
