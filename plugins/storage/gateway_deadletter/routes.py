"""Routes for dead letters: a list, and a single one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from gateway_api.routes import Answer, Problem, Request, Route

from . import models
from .dead_letters import Query, Stores, detail, given_up_counts, row, stores_of

if TYPE_CHECKING:
    from gateway_core.contract.services import GatewayView

MAX_DEAD_LETTERS = 1000
"""Per response."""
_PATH = "/api/v1/dead-letters"
_NO_STORE = {"cache-control": "no-store"}
_QUERY = {
    "broker": "Only dead letters of this broker.",
    "trigger": "Only dead letters of this trigger or bridge.",
    "reason": "Only dead letters whose reason contains this text.",
    "redelivered": "`true`: only those whose event a replay of past events or a rewind has delivered since; `false`: "
    "only the others.",
    "skip": "Skip the first N dead letters (default: 0).",
    "limit": f"List at most N dead letters. Default and maximum: {MAX_DEAD_LETTERS}.",
}


def dead_letter_routes(gateway: GatewayView) -> list[Route]:
    """The routes. Files are read in a thread."""

    def stores() -> Stores:
        return stores_of(gateway)

    async def everything(request: Request) -> Answer:
        query, skip, limit = _asked(request)
        channels = [(name, broker.channel) for name, broker in gateway.topology.brokers.items()]

        def read() -> dict[str, Any]:
            found = stores()
            gone, left = given_up_counts(channels), found.left_behind()
            rows = [row(dead_letter) for dead_letter in islice(found.dead_letters(query), skip, skip + limit + 1)]
            return {
                "items": rows[:limit],
                "more": len(rows) > limit,
                "unknown": list(found.unknown(query)),
                "unreadable": found.unreadable,
                "elsewhere": [e for name, counts in gone for e in found.elsewhere(name, counts, query, left=left)],
                "left_behind": [{"file": str(e.file), "count": e.count, "command": e.command} for e in left],
            }

        return Answer(await to_thread.run_sync(read), headers=_NO_STORE)

    async def single(request: Request) -> Answer:
        id_ = request.params["id"]

        def read() -> dict[str, Any]:
            found = stores()
            dead_letter = next(found.dead_letters(Query(ids=frozenset((id_,)))), None)
            if dead_letter is None:
                raise Problem(404, found.absent(id_))
            return detail(dead_letter)

        return Answer(await to_thread.run_sync(read), headers=_NO_STORE)

    return [
        Route(
            "GET",
            _PATH,
            everything,
            "Dead letters, oldest first",
            {200: models.DeadLetterList},
            problems=[422],
            query=_QUERY,
            role="viewer",
        ),
        Route(
            "GET",
            f"{_PATH}/{{id}}",
            single,
            "One dead letter in full",
            {200: models.DeadLetterDetail},
            problems=[404],
            role="viewer",
        ),
    ]


def _asked(request: Request) -> tuple[Query, int, int]:
    """Which dead letters, how many to skip, how many to list. Raises `Problem`."""
    if unknown := request.query.keys() - _QUERY.keys():
        raise Problem(422, f"unknown parameter {', '.join(sorted(unknown))}; known: {', '.join(_QUERY)}")
    since = request.asked("redelivered")
    if since not in (None, "true", "false"):
        raise Problem(422, "redelivered must be true or false")
    chosen = None if since is None else since == "true"
    query = Query(request.asked("broker"), request.asked("trigger"), request.asked("reason"), redelivered=chosen)
    return query, _number(request, "skip", 0, 2**63), _number(request, "limit", MAX_DEAD_LETTERS, MAX_DEAD_LETTERS)


def _number(request: Request, name: str, default: int, most: int) -> int:
    text = request.asked(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most):
        raise Problem(422, f"{name} must be a number from 0 to {most}")
    return int(text)
