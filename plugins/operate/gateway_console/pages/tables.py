"""The pages of tables: the queries that read a broker's channel, and rows of what they wrote."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from gateway_api.routes import Answer, Problem, Request, Route

from gateway_core.contract.status import TriggerStatus

from ..context import Console
from ..health import health_of
from ..live import live
from ..page import fragment, html, page, render
from ..sparkline import sparkline
from ..table_view import KeepsRows, batches, cells, parts

_PATH = "/tables"
_LIST = "tables.html"
_ONE = "table.html"
_MOST_ROWS = 20
_MOST_BATCHES = 20


def routes(console: Console) -> list[Route]:
    """The list, a page for each query, and rows on request."""
    gateway, sampler = console.gateway, console.sampler

    def line(status: TriggerStatus) -> dict[str, Any]:
        reader = status.reader
        assert reader is not None
        sink = sink_of(status.name)
        lags = sampler.series("triggers", status.name, "lag", rate=False)
        return {
            "status": status,
            "reader": reader,
            "health": health_of(status, sampler.rates_of("triggers", status.name)),
            "format": sink.format if isinstance(sink, KeepsRows) else "",
            "rate": sampler.rate("triggers", status.name, "delivered"),
            "lags": sparkline(lags, f"Lag, now {status.lag or 0}"),
        }

    def sink_of(name: str) -> Any:
        trigger = gateway.topology.triggers.get(name)
        return trigger.sink if trigger is not None and trigger.reads else None

    def listed() -> dict[str, Any]:
        found = [line(status) for status in sampler.current.triggers if status.reader is not None]
        return {"title": "Tables", "lines": found}

    def show_list(request: Request) -> Answer:
        return html(render(_LIST, request, **listed()))

    def list_parts(request: Request) -> dict[str, str]:
        return {"queries": fragment(_LIST, "queries", request, **listed())}

    def now(request: Request) -> dict[str, Any]:
        name = request.params["name"]
        status = next((t for t in sampler.current.triggers if t.name == name), None)
        if status is None or status.reader is None:
            raise Problem(404, f"there is no trigger {name!r} whose subscriber reads the channel")
        rows = sampler.series("triggers", name, "delivered", rate=True)
        return {
            "title": name,
            "section": "Tables",
            "name": name,
            **line(status),
            "details": status.reader.details,
            "rows": sparkline(rows, "Rows per second"),
            "batches": batches(sampler.samples, name)[:_MOST_BATCHES],
            "parts": parts(status.reader.details),
        }

    async def show(request: Request) -> Answer:
        found, sink = now(request), sink_of(request.params["name"])
        names = await to_thread.run_sync(sink.tables) if isinstance(sink, KeepsRows) else {}
        return html(render(_ONE, request, **found, tables=list(names), shown=None))

    def one_parts(request: Request) -> dict[str, str]:
        found = now(request)
        return {name: fragment(_ONE, name, request, **found) for name in ("facts", "charts", "progress")}

    async def show_rows(request: Request) -> Answer:
        name, table = request.params["name"], request.asked("table") or ""
        sink = sink_of(name)
        if not isinstance(sink, KeepsRows):
            raise Problem(404, f"there is no trigger {name!r} whose table can be read here")
        shown: dict[str, Any] = {"table": table, "columns": [], "rows": [], "files": 0, "fault": ""}
        try:
            found = await to_thread.run_sync(sink.newest_rows, table, _MOST_ROWS)
        except ValueError as e:
            shown["fault"] = str(e)
        else:
            rows = cells(found, console.hides, request.role)
            shown |= {"columns": found.columns, "rows": rows, "files": found.files}
        return html(fragment(_ONE, "newest", request, shown=shown))

    one = f"{_PATH}/{{name}}"
    return [
        page(_PATH, show_list, "All tables"),
        live("/live/tables", list_parts, sampler, "Changes of all tables"),
        page(one, show, "A query and its tables"),
        live(f"/live{one}", one_parts, sampler, "Changes of a query"),
        page(f"{one}/rows", show_rows, "The newest rows of a table"),
    ]
