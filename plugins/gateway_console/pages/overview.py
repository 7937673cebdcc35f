"""The first page: what is connected to what, and how it goes."""

from __future__ import annotations

from typing import Any

from gateway_admin.routes import Answer, Request, Route

from ..context import Console
from ..live import live
from ..page import fragment, html, page, render

_TEMPLATE = "overview.html"


def routes(console: Console) -> list[Route]:
    """The page, and its changes."""

    def values(request: Request) -> dict[str, Any]:
        return {"title": "Overview", "status": console.sampler.current, "sampler": console.sampler}

    def show(request: Request) -> Answer:
        return html(render(_TEMPLATE, request, **values(request)))

    def parts(request: Request) -> dict[str, str]:
        found = values(request)
        return {name: fragment(_TEMPLATE, name, request, **found) for name in ("summary", "entries")}

    return [
        page("", show, "Overview"),
        live("/live/overview", parts, console.sampler, "Changes of the overview"),
    ]
