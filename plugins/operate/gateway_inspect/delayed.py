"""Events that wait until they are due: what there is, cancel, deliver now. All workers are asked."""

from __future__ import annotations

from typing import Any

import msgspec
from gateway_api.routes import JSON, Answer, Problem, Request, Route

from gateway_core.contract.capabilities import Delaying
from gateway_core.contract.errors import StorageError
from gateway_core.contract.event import id_of, split_position
from gateway_core.contract.moments import stamped
from gateway_core.contract.topology import Topology

from . import models
from .context import InspectContext

_PATH = "/api/v1/triggers/{name}/delayed"
_WITHIN_S = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "month": 2_592_000}
_MOST = 1000
_DEFAULT = 20
_NO_STORE = {"cache-control": "no-store"}


class _Event(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    source: str


_event = msgspec.json.Decoder(_Event).decode


def answered(topology: Topology, question: dict[str, Any]) -> dict[str, Any]:
    """What this worker knows or does. `delayed` is "list", "cancel" or "now"."""
    trigger = topology.triggers.get(question["trigger"])
    feed = trigger.feed if trigger is not None else None
    if not isinstance(feed, Delaying):
        return {"count": 0, "within": dict.fromkeys(_WITHIN_S, 0), "events": []}
    try:
        if question["delayed"] == "cancel":
            return {"count": feed.cancel(question["id"], question["source"])}
        if question["delayed"] == "now":
            return {"count": feed.deliver_now(question["id"], question["source"])}
        within = feed.due_within(tuple(_WITHIN_S.values()))
        events = feed.not_due(None, question["limit"])
    except StorageError as e:
        return {"error": str(e)}
    return {
        "count": feed.delayed,
        "within": dict(zip(_WITHIN_S, within, strict=True)),
        "events": [
            {
                "due": stamped(one.due_ns),
                "id": id_of(one.event),
                "source": one.event.attributes.get("source"),
                "type": one.event.attributes.get("type"),
                "place": "{}/{}".format(*split_position(one.event.position)),
            }
            for one in events
        ],
    }


async def _asked(service: InspectContext, question: dict[str, Any]) -> list[dict[str, Any]]:
    gateway = service.gateway
    if question["trigger"] not in gateway.topology.triggers:
        raise Problem(404, f"there is no trigger {question['trigger']!r}")
    found = [answered(gateway.topology, question), *await gateway.peers.ask(service.name, question)]
    if error := next((one["error"] for one in found if "error" in one), None):
        raise Problem(503, error)
    return found


async def waiting(service: InspectContext, trigger: str, limit: int) -> dict[str, Any]:
    """What waits for a trigger, in all workers: the document of `tidegate delayed list`. Raises `Problem`."""
    found = await _asked(service, {"delayed": "list", "trigger": trigger, "limit": limit})
    return {
        "trigger": trigger,
        "count": sum(one["count"] for one in found),
        "within": {word: sum(one["within"][word] for one in found) for word in _WITHIN_S},
        "events": sorted((e for one in found for e in one["events"]), key=lambda e: e["due"])[:limit],
    }


async def change(service: InspectContext, what: str, trigger: str, id: str, source: str) -> dict[str, Any]:
    """Cancels ("cancel") the events with this id and source that wait for a trigger, or delivers them ("now"). Returns
    facts for the audit log, with their `count`. Raises `Problem`."""
    question = {"delayed": what, "trigger": trigger, "id": id, "source": source}
    count = sum(one["count"] for one in await _asked(service, question))
    return {"trigger": trigger, "id": id, "source": source, "count": count}


def delayed_routes(service: InspectContext) -> list[Route]:
    """The routes."""

    async def listed(request: Request) -> Answer:
        text = request.asked("limit") or str(_DEFAULT)
        if not (text.isascii() and text.isdigit() and int(text) <= _MOST):
            raise Problem(422, f"limit must be a number from 0 to {_MOST}")
        return Answer(await waiting(service, request.params["name"], int(text)), headers=_NO_STORE)

    async def changed(request: Request) -> Answer:
        if request.media != JSON:
            raise Problem(415, f"send the body as {JSON}")
        try:
            event = _event(request.body)
        except msgspec.MsgspecError as e:
            raise Problem(422, f"the body is not valid: {e}") from e
        what = request.path.rpartition("/")[2]
        facts = await change(service, what, request.params["name"], event.id, event.source)
        return Answer({"count": facts["count"]}, facts=facts)

    body = "`id` and `source` of the event."
    return [
        Route(
            "GET",
            _PATH,
            listed,
            "Events that wait until they are due",
            {200: models.DelayedEvents},
            problems=[404, 422, 503],
            query={"limit": f"How many events to list: 0 to {_MOST}, default {_DEFAULT}."},
            role="viewer",
        ),
        *(
            Route(
                "POST",
                f"{_PATH}/{word}",
                changed,
                summary,
                {200: models.DelayedChange},
                problems=[404, 415, 422, 503],
                body=body,
                takes=[JSON],
                role="operator",
                action=f"delayed.{word}",
            )
            for word, summary in (("cancel", "Cancel an event that waits"), ("now", "Deliver an event that waits now"))
        ),
    ]
