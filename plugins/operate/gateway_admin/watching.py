"""The routes of the admin API that every gateway needs: status, metrics and health. The others are in `table.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from operator import attrgetter

import anyio
from gateway_api.routes import Answer, Model, Problem, Request, Route, Text, encoded
from gateway_serving.slices import chunks, drop
from msgspec.structs import replace as replaced

from gateway_core.contract.component import OwnMetric
from gateway_core.contract.status import GatewayStatus

from . import metrics
from .paging import QUERY as PAGING
from .paging import paged

NO_STORE = {"cache-control": "no-store"}
Status = Callable[[], GatewayStatus | Awaitable[GatewayStatus]]


class Live(Model):
    live: bool


class Ready(Model):
    ready: bool


class Startup(Model):
    startup: bool


_PROBES: dict[str, type[Model]] = {"live": Live, "ready": Ready, "startup": Startup}


def watching_routes(
    status: Status, probes: Mapping[str, Callable[[], bool]], with_metrics: bool, own: Sequence[OwnMetric] = ()
) -> list[Route]:
    """Routes for status, metrics (also the components' `own` ones) and health."""

    async def current() -> GatewayStatus:
        found = status()
        return await found if isawaitable(found) else found

    exposition, scraping = metrics.Exposition(own), anyio.Lock()

    async def show(request: Request) -> Answer:
        found = await current()
        triggers, more = paged(request, found.triggers, attrgetter("name"))
        pieces = encoded(replaced(found, triggers=[]).document(), "triggers", (t.document() for t in triggers))
        answer = Answer(chunks=await chunks(pieces), headers={**NO_STORE, **more})
        triggers.clear()
        await drop(found.triggers)
        return answer

    async def measure(request: Request) -> Answer:
        if not with_metrics:
            raise Problem(404, "metrics are disabled by the gateway's setting TIDEGATE_METRICS")
        async with scraping:
            found = await current()
            pieces = exposition.pieces(found, f"{request.who} {request.peer}")
            answer = Answer(chunks=await chunks(pieces), media=metrics.CONTENT_TYPE.decode())
        await drop(found.triggers)
        return answer

    def probe(word: str) -> Callable[[Request], Answer]:
        def answer(request: Request) -> Answer:
            good = probes[word]()
            return Answer({word: good}, 200 if good else 503, NO_STORE)

        return answer

    return [
        Route(
            "GET",
            "/status",
            show,
            "The full status of the gateway",
            {200: GatewayStatus},
            problems=[400],
            query={name: f"{about} Of the triggers; the rest is there in any case." for name, about in PAGING.items()},
            role="viewer",
        ),
        Route(
            "GET",
            "/metrics",
            measure,
            "Metrics for Prometheus",
            {200: Text("text/plain")},
            problems=[404],
            role="metrics",
        ),
        *(
            Route("GET", f"/health/{word}", probe(word), f"Health: {word}", {200: model, 503: model}, open=True)
            for word, model in _PROBES.items()
        ),
    ]


def described(routes: list[Route]) -> list[Route]:
    """The routes, and one that describes them all."""
    found: list[Route] = []

    def describe(request: Request) -> Answer:
        from . import openapi

        return Answer(openapi.document(found))

    found += [*routes, Route("GET", "/openapi.json", describe, "This document", {200: dict}, role="viewer")]
    return found
