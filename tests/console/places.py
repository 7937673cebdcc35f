"""All pages of a console: those of the navigation, and those that they lead to."""

from __future__ import annotations

from urllib.parse import urlencode

from gateway_console.page import NAVIGATION

from tests.console.lab import Lab


def places(found: Lab) -> list[str]:
    """The paths of all pages below `/console`, each with something on it. The lab has `CONFIG` and `TABLE`."""
    found.down({"id": "dead", "type": "order.paid", "source": "/tests", "data": {"amount": 3}})
    letter = found.dead_letters()[0]["id"]
    replay = found.post("/api/v1/replays", json={"all": True, "trigger": "orders"}).raise_for_status().json()["id"]
    asked = {"trigger": "billing", "from": "1h"}
    again = found.post("/api/v1/event-replays", json=asked).raise_for_status().json()["id"]
    found.gateway.admin("/console/catalogue").raise_for_status()
    return [
        *(entry.path for entry in NAVIGATION),
        "?broker=default",
        f"/events?{urlencode({'id': 'dead', 'source': '/tests'})}",
        f"/dead-letters/{letter}",
        f"/dead-letters/{letter}/edit",
        f"/replays/{replay}",
        "/event-replays?trigger=billing&from=1h&to=now",
        f"/event-replays/{again}",
        "/triggers/billing",
        "/apply",
        "/tables/lake",
        "/catalogue/type?type=order.paid",
        "/nothing",
    ]
