"""The page of what waits for a trigger until it is due: how much, when, and what operators do with it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from gateway_api.routes import Answer, Request, Route
from gateway_inspect.delayed import change, waiting

from ..config import HIDDEN
from ..context import Console
from ..page import ROOT, action, html, page, render, see_other

_PATH = "/triggers/{name}/delayed"
_MOST_LISTED = 100
_SHOWN = ("id", "source", "type")


def routes(console: Console) -> list[Route]:
    """The page, and what it changes."""

    async def show(request: Request) -> Answer:
        name = request.params["name"]
        found = await waiting(console.inspect, name, _MOST_LISTED)
        hidden = {each for each in _SHOWN if console.hides.hides_attribute(each, request.role)}
        values: dict[str, Any] = {
            "title": f"Delayed events of {name}",
            "section": "Triggers",
            "name": name,
            "found": found,
            "rows": [{**row, **dict.fromkeys(hidden, HIDDEN)} for row in found["events"]],
            "changes": not hidden & {"id", "source"},
            "changed": request.asked("changed"),
            "count": request.asked("count"),
        }
        return html(render("delayed.html", request, **values))

    def changing(what: str) -> Any:
        async def answer(request: Request) -> Answer:
            name, given = request.params["name"], request.form
            facts = await change(console.inspect, what, name, given.get("id", ""), given.get("source", ""))
            asked = urlencode({"changed": what, "count": facts["count"]})
            return see_other(f"{ROOT}{_PATH.format(name=quote(name, safe=''))}?{asked}", facts=facts)

        return answer

    return [
        page(_PATH, show, "Delayed events of a trigger"),
        action(
            f"{_PATH}/cancel", changing("cancel"), "Cancel a delayed event", role="operator", audit="delayed.cancel"
        ),
        action(f"{_PATH}/now", changing("now"), "Deliver a delayed event now", role="operator", audit="delayed.now"),
    ]
