"""The playground: who would get an event and why, without sending it; and the same as a scenario, to keep."""

from __future__ import annotations

import json
from typing import Any

from gateway_api.routes import Answer, Request, Route
from gateway_api.shown import as_yaml
from gateway_inspect.explain import add_duplicates
from gateway_inspect.routes import check_names

from ..context import Console
from ..event_view import bytes_view
from ..explained import explained
from ..page import action, fragment, html, page, render

_PATH = "/playground"
_TEMPLATE = "playground.html"
_EXAMPLE = {
    "specversion": "1.0",
    "id": "1",
    "source": "/playground",
    "type": "order.created",
    "datacontenttype": "application/json",
    "data": {"amount": 12},
}


def routes(console: Console) -> list[Route]:
    """The page, its answer, and the scenario."""
    gateway = console.gateway

    def asked(request: Request) -> dict[str, Any]:
        """Raises `Problem`."""
        broker = request.form.get("broker") or None
        check_names(gateway.topology, broker, None)
        return explained(request.form.get("event", ""), gateway.topology, broker)

    def show(request: Request) -> Answer:
        values = {
            "title": "Playground",
            "brokers": [*gateway.topology.brokers, *gateway.topology.bridges],
            "event": json.dumps(_EXAMPLE, indent=2),
            "found": None,
        }
        return html(render(_TEMPLATE, request, **values))

    async def explain(request: Request) -> Answer:
        found = asked(request)
        text, broker = request.form.get("event", "").encode(), request.form.get("broker") or None
        await add_duplicates(found, text, gateway.topology, broker, None)
        for delivery in found["deliveries"]:
            message = delivery.get("message")
            if message is not None:
                delivery["body"] = _body(message)
        return html(fragment(_TEMPLATE, "answer", request, found=found))

    def save(request: Request) -> Answer:
        text = scenario(request.form.get("event", ""), asked(request), request.form.get("broker", ""))
        headers = {
            "content-disposition": 'attachment; filename="playground.scenario.yaml"',
            "cache-control": "no-store",
        }
        return Answer(body=text.encode(), media="application/yaml", headers=headers)

    return [
        page(_PATH, show, "The playground"),
        action(f"{_PATH}/explain", explain, "What the gateway would do with an event", role="viewer"),
        action(f"{_PATH}/scenario", save, "The same as a scenario for `tidegate test`", role="viewer"),
    ]


def _body(message: dict[str, Any]) -> Any:
    text = message.get("body")
    if text is None and message.get("body_base64"):
        return {"kind": "bytes", "text": message["body_base64"]}
    return bytes_view((text or "").encode())


def scenario(event: str, found: dict[str, Any], broker: str = "") -> str:
    """A scenario that expects what was found, as YAML."""
    sent = json.loads(event)
    id = sent.get("id")
    step = {"event": sent, **({"to": broker} if broker else {})}
    if found["refused"]:
        expect: dict[str, Any] = {"refused": [{"status": found["refused"]["status"]}]}
    else:
        triggers = {
            each["name"]: {"delivered" if each["matched"] else "not_matched": [id]} for each in found["deliveries"]
        }
        expect = {"accepted": 1, "triggers": triggers}
    name = f"{sent.get('type', 'an event')} from the playground"
    return as_yaml({"tests": {name: {"events": [step], "expect": expect}}})
