"""All routes of the console."""

from __future__ import annotations

from gateway_api.routes import Answer, Request, Route, Text

from .assets import asset_routes
from .context import Console
from .live import present
from .login import login_routes
from .page import HTML, see_other
from .pages import (
    catalogue,
    config,
    dead_letters,
    delayed,
    event_replays,
    events,
    overview,
    playground,
    tables,
    tap,
    triggers,
)
from .switch import ROOT


def console_routes(console: Console) -> list[Route]:
    """Those of files, of logins and of pages."""
    listed = (overview, events, tap, dead_letters, event_replays, triggers, playground, tables, catalogue, config)
    modules = (*listed, delayed)
    pages = [route for module in modules for route in module.routes(console)]
    return [_start(), *asset_routes(), *login_routes(console.admin), present(), *pages]


def _start() -> Route:
    def answer(request: Request) -> Answer:
        return see_other(ROOT)

    return Route("GET", "/", answer, "The console", {303: Text(HTML)}, open=True, described=False)
