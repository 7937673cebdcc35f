"""`tidegate why`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gateway_api.client.remote import Remote, remote

from gateway_core.contract.cli import common
from gateway_core.contract.cli.exit_codes import FAULT, OK

from .explain import clause_lines

_LEAST_PREFIX, _MOST_MATCHES = 2, 20
_DONE = ("delivered", "read", "not_matched", "before")


def show_why(
    id: str, source: str | None, broker: str | None, admin: str | None, data_dir: Path | None, *, as_json: bool
) -> int:
    """Searches until the event is found; returns the exit code."""
    query = {name: value for name, value in {"id": id, "source": source, "broker": broker}.items() if value}
    with remote(admin, data_dir) as gateway:
        document = _search(gateway, query)
        if not document["events"] and len(id) >= _LEAST_PREFIX:
            known = _search(gateway, {**query, "prefix": "true"})["matches"]
            ids = {match["id"] for match in known}
            if len(ids) == 1:
                document = _search(gateway, {**query, "id": ids.pop()})
            elif ids:
                document = {**document, "matches": known}
    if as_json:
        common.print_json(document)
    else:
        print("\n".join(as_lines(document)))
    deliveries = [delivery for event in document["events"] for delivery in event["deliveries"]]
    return OK if document["events"] and all(delivery["state"] in _DONE for delivery in deliveries) else FAULT


def _search(gateway: Remote, query: Mapping[str, str]) -> dict[str, Any]:
    searched, rest, shown = 0, None, False
    while True:
        more: dict[str, str] = {} if rest is None else {"rest": json.dumps(rest)}
        document: dict[str, Any] = gateway.ask("GET", "events", query={**query, **more})
        searched += document["searched"]
        rest = document["rest"]
        if document["events"] or document.get("matches") or rest is None:
            break
        if sys.stderr.isatty():
            shown = True
            print(f"\rsearched {searched:,} events …", end="", file=sys.stderr, flush=True)
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr)
    return {**document, "searched": searched}


def as_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What happened to the event, as lines of text."""
    if matches := document.get("matches"):
        yield f"several events have an id that begins with {document['id']}: give more of it"
        yield from (f"  {match['id']}  {match['source']}  {match['type']}" for match in matches[:_MOST_MATCHES])
        if len(matches) > _MOST_MATCHES:
            yield f"  … and {len(matches) - _MOST_MATCHES} more"
        return
    if not document["events"]:
        yield f"no event with the id {document['id']} found; {document['searched']:,} events searched"
    for event in document["events"]:
        yield "event " + ", ".join(f"{name} {value}" for name, value in event["event"].items())
        if event["position"] is not None:
            yield f"  in the channel of broker {event['broker']} at {event['place']}, received {event['received']}"
        else:
            yield f"  not found in the channel of {event['broker']}"
        if not event["deliveries"]:
            yield "  there is no trigger"
        for delivery in event["deliveries"]:
            yield from (f"  {line}" for line in _delivery_lines(delivery))
    for each in document.get("duplicates", ()):
        content = ", with other content" if each["differs"] else ""
        first = f"the first with its key is in the channel of broker {each['broker']} at {each['place']}"
        yield f"a duplicate came at {each['received']}{content}, and was not stored: {first}"
    for name in document["unsearchable"]:
        yield f"(past events of {name} can't be searched, only those being delivered and dead letters)"
    if not document["dead_letters_searched"]:
        yield "(there are too many dead letters to search them all: see `tidegate dlq list`)"


def _delivery_lines(delivery: Mapping[str, Any]) -> Iterator[str]:
    yield f"{delivery['kind']} {delivery['name']}: {delivery['state'].replace('_', ' ')}"
    if delivery["state"] == "not_matched":
        yield from (f"  {line}" for line in clause_lines(delivery["filter"]))
        return
    yield f"  {delivery['text']}"
    yield from (f"  {text}" for text in delivery.get("replays", ()))
    for failure in delivery.get("failures", ()):
        yield f"  attempt {failure['attempt']} at {failure['at']}: {failure['reason']}"
