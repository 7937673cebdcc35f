"""The live page: events as they are accepted and delivered, chosen by an expression."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any
from urllib.parse import urlencode

import anyio
from gateway_api.routes import Answer, Problem, Request, Route
from gateway_inspect.routes import check_names
from gateway_inspect.tap.choice import BadFilter, Choice, compile_all
from gateway_inspect.tap.stream import Batch, batches

from ..config import HIDDEN, HideConfig
from ..context import Console
from ..filters import short
from ..live import BEAT, event, stream, streamed
from ..page import ROOT, fragment, html, page, render

_PATH = "/live"
_TEMPLATE = "live.html"
_EVERY_S = 0.5
_MOST_ROWS = 50
"""Rows that come at once. Nobody reads more, and they cost the gateway something."""
_MOST_TEXT = 200
_MOST_ADDRESS = 8000
_KINDS = {"accepted": "accepted", "refused": "refused", "dead_lettered": "dead letter"}


def routes(console: Console) -> list[Route]:
    """The page, its stream, and the check of an expression as it is typed."""
    gateway = console.gateway

    def show(request: Request) -> Answer:
        found = {name: request.asked(name) or "" for name in ("filter", "broker", "trigger")}
        built = gateway.topology
        values = {
            "title": "Live",
            "asked": found,
            "fault": _fault(console, found["filter"], request),
            "brokers": [*built.brokers, *built.bridges],
            "triggers": list(built.triggers),
            "stream": f"{ROOT}{_PATH}/tap?{urlencode(found)}",
            "rows": [],
            "dropped": 0,
        }
        return html(render(_TEMPLATE, request, **values))

    def check(request: Request) -> Answer:
        fault = _fault(console, request.asked("filter") or "", request)
        return html(fragment(_TEMPLATE, "check", request, fault=fault))

    def tap(request: Request) -> Answer:
        text = (request.asked("filter") or "").strip()
        broker, trigger = request.asked("broker") or None, request.asked("trigger") or None
        check_names(gateway.topology, broker, trigger)
        if fault := _fault(console, text, request):
            raise Problem(422, fault)
        choice = Choice(broker, trigger, (text,) if text else (), held=_MOST_ROWS)
        return streamed(_rows(console, choice, request))

    return [
        page(_PATH, show, "Events as they come"),
        page(f"{_PATH}/check", check, "Whether an expression can be used"),
        stream(f"{_PATH}/tap", tap, "Rows of live events"),
    ]


def _fault(console: Console, text: str, request: Request) -> str:
    """Why an expression can't be used, "" if it can. Whoever may choose events by an attribute can guess its value."""
    if not text.strip():
        return ""
    for name in console.hides.attributes:
        named = re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE)
        if named and console.hides.hides_attribute(name, request.role):
            return f"the attribute {name} is hidden from you, so you can't choose events by it"
    try:
        compile_all((text.strip(),), console.gateway.registry)
    except BadFilter as e:
        return str(e)
    return ""


async def _rows(console: Console, choice: Choice, request: Request) -> AsyncIterator[bytes]:
    dropped = 0
    async with aclosing(batches(choice, console.inspect, _EVERY_S, _MOST_ROWS)) as found:
        async for batch in found:
            parts = []
            if batch.lines:
                rows = [*_shown(batch, console.hides, request)]
                rows.reverse()  # the newest on top
                parts.append(event("rows", fragment(_TEMPLATE, "tap_rows", request, rows=rows)))
            if batch.dropped:
                dropped += batch.dropped
                parts.append(event("dropped", fragment(_TEMPLATE, "dropped", request, dropped=dropped)))
            yield b"".join(parts) or BEAT
            if batch.dropped:  # many events: rows that nobody can read come half as often
                await anyio.sleep(_EVERY_S)


def _shown(batch: Batch, hides: HideConfig, request: Request) -> Iterator[dict[str, Any]]:
    for text in batch.lines:
        line: dict[str, Any] = json.loads(text)
        attributes = line.get("event", {})

        def seen(name: str, attributes: dict[str, Any] = attributes) -> str:
            hidden = hides.hides_attribute(name, request.role)
            return HIDDEN if hidden else short(str(attributes.get(name, "")), _MOST_TEXT)

        kind = _KINDS.get(line["kind"]) or ("delivered" if line.get("delivered") else "failed")
        link = {"id": attributes.get("id", ""), "source": attributes.get("source", "")}
        linked = link["id"] and not any(hides.hides_attribute(name, request.role) for name in link)
        address = f"{ROOT}/events?{urlencode(link)}" if linked else ""
        yield {
            "at": line["at"][11:23],
            "kind": kind,
            "where": line.get("broker") or line.get("trigger") or "",
            "type": seen("type"),
            "source": seen("source"),
            "id": seen("id"),
            "link": address if len(address) <= _MOST_ADDRESS else "",
            "bytes": line.get("bytes"),
            "code": line.get("code"),
            "reason": short(line.get("reason") or line.get("filter_error") or "", _MOST_TEXT),
            "ms": line.get("ms"),
        }
