"""The pages of the catalogue: types and sources of events as they were seen, and exports of them."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlencode

from gateway_api.routes import JSON, YAML, Answer, Problem, Request, Route
from gateway_api.shown import as_yaml
from gateway_cloudevents import event_json
from gateway_inspect.explain import explain
from gateway_schema.inferred import lines

from ..catalogue.catalogue import Catalogue, TypeSeen, by_count
from ..catalogue.export import asyncapi, json_schema
from ..config import HIDDEN
from ..context import Console
from ..event_view import view
from ..explained import without_values
from ..live import live
from ..page import ROOT, fragment, html, page, render
from ..sparkline import sparkline

_PATH = "/catalogue"
_LIST = "catalogue.html"
_ONE = "type.html"
_MOST_ROWS = 100
_MOST_LINES = 200
_WANTED_FOR_S = 10.0


def routes(console: Console) -> list[Route]:
    """The list, a page for each type, and the exports."""
    lookout, gateway = console.lookout, console.gateway
    known_wanted: dict[str, tuple[float, int]] = {}

    def hides(request: Request, *attributes: str) -> bool:
        return any(console.hides.hides_attribute(name, request.role) for name in attributes)

    def seen(request: Request, name: str) -> str:
        """A source as the reader may see it."""
        return HIDDEN if hides(request, "source") else name

    def allow(request: Request) -> None:
        if hides(request, "type"):
            raise Problem(403, "types of events are hidden from your role, so there is no catalogue for it")

    def wanted_by(name: str, found: TypeSeen) -> int:
        """How many triggers and bridges want the example; found out again after a while."""
        now = time.monotonic()
        at, count = known_wanted.get(name, (0.0, 0))
        if now - at > _WANTED_FOR_S or name not in known_wanted:
            count = len([each for each in deliveries(found) if each["matched"]])
            known_wanted[name] = (now, count)
        return count

    def deliveries(found: TypeSeen) -> list[dict[str, Any]]:
        if found.example is None:
            return []
        event = event_json.load(json.dumps(found.example).encode())
        explained: list[dict[str, Any]] = []
        for broker in found.brokers:
            explained += explain(gateway.topology, event, broker)["deliveries"]
        return explained

    def listed(request: Request, catalogue: Catalogue) -> dict[str, Any]:
        text = (request.asked("search") or "").lower()
        types = [each for each in by_count(catalogue.types.items()) if text in each[0].lower()]
        sources = [each for each in by_count(catalogue.sources.items()) if text in each[0].lower()]
        if hides(request, "source"):
            sources = []
        for name in known_wanted.keys() - catalogue.types.keys():
            del known_wanted[name]
        return {
            "title": "Catalogue",
            "search": text,
            "catalogue": catalogue,
            "types": [
                (
                    name,
                    found,
                    wanted_by(name, found),
                    sparkline(found.rates.series, "Rate lately", width=100, height=24),
                )
                for name, found in types[:_MOST_ROWS]
            ],
            "sources": sources[:_MOST_ROWS],
            "more": (max(0, len(types) - _MOST_ROWS), max(0, len(sources) - _MOST_ROWS)),
            "no_sources": hides(request, "source"),
        }

    async def show_list(request: Request) -> Answer:
        allow(request)
        return html(render(_LIST, request, **listed(request, await lookout.collect())))

    def list_parts(request: Request) -> dict[str, str]:
        allow(request)
        found = listed(request, lookout.look())
        return {name: fragment(_LIST, name, request, **found) for name in ("summary", "types", "sources")}

    def shown_clause(request: Request, clause: dict[str, Any]) -> dict[str, Any]:
        """A clause without what it found in the event, if something of events is hidden from the reader."""
        hides, role = console.hides, request.role
        return without_values(clause, hides, role) if hides.hides_some(role) else clause

    def one(request: Request, catalogue: Catalogue) -> tuple[str, TypeSeen]:
        allow(request)
        name = request.asked("type") or ""
        found = catalogue.types.get(name)
        if found is None:
            raise Problem(404, "no event of this type was seen since the catalogue began to look")
        return name, found

    def values(request: Request, name: str, found: TypeSeen) -> dict[str, Any]:
        schema = {} if console.hides.hides_data(request.role) else found.schema
        places = list(lines(schema))
        example = None if found.example is None else view(found.example, console.hides, request.role)
        ids = {key: str((found.example or {}).get(key, "")) for key in ("id", "source")}
        return {
            "title": name,
            "section": "Catalogue",
            "name": name,
            "found": found,
            "sources": [(seen(request, source), count) for source, count in by_count(found.sources.items())[:20]],
            "rates": sparkline(found.rates.series, "Events per second"),
            "lines": places[:_MOST_LINES],
            "more_lines": max(0, len(places) - _MOST_LINES),
            "hidden": console.hides.hides_data(request.role),
            "attributes_seen": found.attributes,
            "example": example,
            "link": "" if hides(request, "id", "source") else f"{ROOT}/events?{urlencode(ids)}",
            "deliveries": [{**each, "filter": shown_clause(request, each["filter"])} for each in deliveries(found)],
            "query": urlencode({"type": name}),
        }

    async def show(request: Request) -> Answer:
        found = one(request, await lookout.collect())
        return html(render(_ONE, request, **values(request, *found)))

    async def one_parts(request: Request) -> dict[str, str]:
        catalogue = lookout.look()
        if request.asked("type") not in catalogue.types:  # it starts again after a restart
            catalogue = await lookout.collect()
        found = values(request, *one(request, catalogue))
        return {name: fragment(_ONE, name, request, **found) for name in ("facts", "sources", "schema")}

    async def document(request: Request) -> dict[str, Any]:
        allow(request)
        catalogue = await lookout.collect()
        attributes = {name for found in catalogue.types.values() for name in found.attributes}
        data = not console.hides.hides_data(request.role)
        hidden = [name for name in attributes if hides(request, name)]
        return asyncapi(catalogue, console.sampler.current, data=data, hidden=hidden)

    async def as_json(request: Request) -> Answer:
        text = json.dumps(await document(request), indent=2, ensure_ascii=False)
        return _download(text, JSON, "asyncapi.json")

    async def yaml(request: Request) -> Answer:
        return _download(as_yaml(await document(request)), YAML[0], "asyncapi.yaml")

    async def schema(request: Request) -> Answer:
        name, found = one(request, await lookout.collect())
        if console.hides.hides_data(request.role):
            raise Problem(403, "the data of events are hidden from your role, and so is their schema")
        text = json.dumps(json_schema(name, found), indent=2, ensure_ascii=False)
        return _download(text, "application/schema+json", "schema.json")

    return [
        page(_PATH, show_list, "Types and sources that were seen"),
        live("/live/catalogue", list_parts, console.sampler, "Changes of the catalogue"),
        page(f"{_PATH}/type", show, "A type of events"),
        live("/live/catalogue/type", one_parts, console.sampler, "Changes of a type"),
        page(f"{_PATH}/asyncapi.json", as_json, "The catalogue as AsyncAPI, in JSON"),
        page(f"{_PATH}/asyncapi.yaml", yaml, "The catalogue as AsyncAPI, in YAML"),
        page(f"{_PATH}/schema.json", schema, "The schema of a type's data"),
    ]


def _download(text: str, media: str, name: str) -> Answer:
    headers = {
        "content-disposition": f'attachment; filename="{name}"',
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
    }
    return Answer(body=text.encode("utf-8", "replace"), media=media, headers=headers)
