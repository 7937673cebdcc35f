"""The pages of events: the search, and what happened to one event."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import anyio
from anyio import to_thread
from gateway_api.routes import Answer, Problem, Request, Route
from gateway_inspect.routes import check_names
from gateway_inspect.why import Wanted

from ..config import HIDDEN
from ..context import Console
from ..event_search import AUTOMATIC, Results, Search, asked, search
from ..event_trace import Trace, Traces, again, event_at, signature, traces
from ..event_view import as_curl, as_send, view
from ..live import BEAT, EVERY_S, event, stream, streamed
from ..page import ROOT, fragment, html, page, render
from ..table_view import FindsRows, cells

_PATH = "/events"
_LIST = "events.html"
_ONE = "event.html"
_MOST_COMMAND = 64 * 1024
"""Longer commands are not offered: a shell has a limit of 128 KiB for one word."""


def routes(console: Console) -> list[Route]:
    """The search, its next steps, one event with its changes, and the event as a file."""
    gateway = console.gateway

    def values(request: Request, wanted: Search) -> dict[str, Any]:
        return {
            "title": "Events",
            "asked": wanted,
            "brokers": [*gateway.topology.brokers, *gateway.topology.bridges],
            "choice": [],
            "found": None,
            "automatic": False,
            "stopped": False,
        }

    async def show(request: Request) -> Answer:
        console.recording.look()
        wanted = asked(request, console.hides)
        check_names(gateway.topology, wanted.broker or None, None)
        shown = values(request, wanted)
        if wanted.faults:
            return html(render(_LIST, request, **shown), 422)
        if not wanted.for_one:
            found = await search(console, wanted, request.role)
            return html(render(_LIST, request, **{**shown, **_step(found)}))
        found_one = await traces(console, _wanted(wanted), wanted.rest, wanted.position)
        chosen = _chosen(found_one, request)
        if chosen is not None:
            return html(render(_ONE, request, **one(request, chosen, found_one)))
        return html(render(_LIST, request, **{**shown, **_one_step(found_one, wanted, request, console)}))

    async def more(request: Request) -> Answer:
        """The next step: rows, and what follows them."""
        console.recording.look()
        wanted = asked(request, console.hides)
        check_names(gateway.topology, wanted.broker or None, None)
        shown = values(request, wanted)
        if wanted.faults:
            raise Problem(422, "; ".join(wanted.faults))
        if request.asked("stop"):
            stopped = Results([], wanted, wanted.searched, [], [])
            return html(fragment(_LIST, "rows", request, **{**shown, "found": stopped, "stopped": True}))
        if not wanted.for_one:
            found = await search(console, wanted, request.role)
            return html(fragment(_LIST, "rows", request, **{**shown, **_step(found)}))
        found_one = await traces(console, _wanted(wanted), wanted.rest, wanted.position)
        if found_one.found:  # its page begins where this step did
            return html("", headers={"hx-redirect": f"{ROOT}{_PATH}?{wanted.query()}"})
        return html(fragment(_LIST, "rows", request, **{**shown, **_one_step(found_one, wanted, request, console)}))

    def one(request: Request, trace: Trace, found: Traces) -> dict[str, Any]:
        hides, role = console.hides, request.role
        seen = view(trace.document or trace.entry["event"], hides, role)
        hidden = seen.data.kind == "hidden" or any(value == HIDDEN for _, value in seen.attributes)
        curl = send = ""
        urls = _ingress(console, trace.broker)
        if trace.document is not None and not hidden and urls:
            curl, send = as_curl(trace.document, urls[0]), as_send(trace.document, urls[0])
        link = _link(trace)
        short = max(len(curl), len(send)) <= _MOST_COMMAND
        return {
            **moving(request, trace),
            "title": seen.attribute("id") or "Event",
            "row_found": None,
            "section": "Events",
            "view": seen,
            "known": trace.document is not None,
            "download": f"{ROOT}{_PATH}/download?{link}" if trace.document is not None and not hidden else "",
            "url": urls[0] if urls else "",
            "curl": curl if short else "",
            "send": send if short else "",
            "hidden": hidden,
            "stream": f"{ROOT}/live{_PATH}?{link}",
            "others": [
                (other, f"{ROOT}{_PATH}?{_link(other)}")
                for other in found.found
                if (other.broker, other.position) != (trace.broker, trace.position)
            ],
            "complete": found.complete,
        }

    def moving(request: Request, trace: Trace) -> dict[str, Any]:
        hides = console.hides
        return {
            "trace": trace,
            "line": trace.timeline(hides, request.role),
            "subject": {} if trace.document is None else trace.document,
            "row_of": f"{ROOT}{_PATH}/row?{_link(trace)}",
        }

    async def find(request: Request) -> Trace:
        wanted = asked(request, console.hides)
        if not wanted.id:
            raise Problem(422, "the id is missing: add `?id=…`")
        found = await traces(console, _wanted(wanted), wanted.rest, wanted.position)
        chosen = _chosen(found, request) or next(iter(found.found), None)
        if chosen is None:
            raise Problem(404, "this event no longer exists, or is further back: search for it")
        return chosen

    async def row(request: Request) -> Answer:
        """The row of an event in a table."""
        name, hides = request.asked("trigger") or "", console.hides
        trigger = gateway.topology.triggers.get(name)
        sink = trigger.sink if trigger is not None and trigger.reads else None
        if not isinstance(sink, FindsRows):
            raise Problem(404, f"there is no trigger {name!r} whose table can be read here")
        wanted = asked(request, hides)
        kept = await event_at(console, _wanted(wanted), wanted.position)
        known = (await find(request)).entry["event"] if kept is None else kept.attributes
        shown: dict[str, Any] = {"trigger": name, "table": "", "batch": None, "cells": [], "fault": ""}
        try:
            keys = (str(known.get(name, "")) for name in ("id", "source", "type"))
            found = await to_thread.run_sync(sink.event_row, *keys)
        except ValueError as e:
            shown["fault"] = str(e)
        else:
            if found is not None:
                values = zip(found.columns, *cells(found, hides, request.role), strict=True)
                table = HIDDEN if hides.hides_attribute("type", request.role) else found.table
                shown |= {"table": table, "batch": found.batch, "cells": list(values)}
        return html(fragment(_ONE, "row_found", request, row_found=shown))

    async def download(request: Request) -> Answer:
        trace = await find(request)
        hides = console.hides
        if trace.document is None:
            raise Problem(404, "only the id of this event is known")
        if hides.hides_data(request.role) or any(hides.hides_attribute(n, request.role) for n in trace.document):
            raise Problem(403, "parts of this event are hidden from you")
        headers = {
            "content-disposition": 'attachment; filename="event.json"',
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
        }
        body = json.dumps(trace.document, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return Answer(body=body, media="application/cloudevents+json", headers=headers)

    async def follow(request: Request) -> Answer:
        return streamed(changes(request, await find(request)))

    async def changes(request: Request, trace: Trace) -> AsyncIterator[bytes]:
        with console.sampler.watched():
            before = ""
            while True:
                now = await signature(console, trace)
                if now != before:
                    before, trace = now, await again(console, trace)
                    text = fragment(_ONE, "timeline", request, **moving(request, trace))
                    yield event("timeline", text)
                else:
                    yield BEAT
                await anyio.sleep(EVERY_S)

    return [
        page(_PATH, show, "Search for events, or one event"),
        page(f"{_PATH}/more", more, "The next step of a search"),
        page(f"{_PATH}/row", row, "The row of an event in a table"),
        page(f"{_PATH}/download", download, "An event as a file"),
        stream(f"/live{_PATH}", follow, "Changes of one event"),
    ]


def _wanted(wanted: Search) -> Wanted:
    return Wanted(wanted.id, wanted.source or None, wanted.broker or None)


def _step(found: Results) -> dict[str, Any]:
    automatic = found.next is not None and not found.rows and found.next.steps <= AUTOMATIC
    return {"found": found, "automatic": automatic}


def _one_step(found: Traces, wanted: Search, request: Request, console: Console) -> dict[str, Any]:
    following = None
    searched = wanted.searched + found.searched
    if found.rest is not None and not found.found:
        following = replace(wanted, rest=found.rest, searched=searched, steps=wanted.steps + 1)
    step = Results([], following, searched, found.unsearchable, [])
    hides = console.hides
    choice = [
        {
            "source": HIDDEN if hides.hides_attribute("source", request.role) else each.source,
            "type": HIDDEN if hides.hides_attribute("type", request.role) else each.entry["event"].get("type", ""),
            "broker": each.broker,
            "place": each.entry["place"] or "",
            "received": (each.entry["received"] or "")[:19].replace("T", " "),
            "link": f"{ROOT}{_PATH}?{_link(each)}",
        }
        for each in found.found
    ]
    return {**_step(step), "choice": choice}


def _chosen(found: Traces, request: Request) -> Trace | None:
    """The event that is meant; None if there are several sources to choose from, or nothing was found."""
    for trace in found.found:
        if trace.position and str(trace.position) == request.asked("position"):
            return trace
    sources = {trace.source for trace in found.found if trace.source}
    if len(sources) > 1:
        return None
    return next(iter(found.found), None)


def _link(trace: Trace) -> str:
    link = {"id": trace.entry["event"].get("id", ""), "source": trace.source, "broker": trace.broker}
    if trace.position:
        link["position"] = str(trace.position)
    return urlencode({name: value for name, value in link.items() if value})


def _ingress(console: Console, broker: str) -> list[str]:
    status = console.gateway.status()
    found = next((each for each in status.brokers if each.name == broker), None)
    if found is not None:
        return [url for url in found.ingress if url.startswith(("http://", "https://"))]
    bridge = next((each for each in status.bridges if each.name == broker), None)
    return [bridge.source] if bridge is not None and bridge.source.startswith(("http://", "https://")) else []
