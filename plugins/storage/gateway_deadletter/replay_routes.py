"""Routes for replays: start one, see how far it is, cancel it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from anyio import to_thread
from gateway_api.routes import JSON, Answer, Problem, Request, Route

from . import models
from .dead_letters import Query
from .replay import Replay, selection
from .replays import ACTION, MOST_RATE, Replays

_PATH = "/api/v1/replays"
_NO_STORE = {"cache-control": "no-store"}
DEFAULT_RATE = 100


class _Wanted(msgspec.Struct, forbid_unknown_fields=True):
    broker: str | None = None
    trigger: str | None = None
    reason: str | None = None
    group: str | None = None
    ids: list[str] = []
    all: bool = False
    rate: int = DEFAULT_RATE
    all_triggers: bool = False
    redelivered: Literal["no", "yes", "any"] = "no"
    count: int | None = None


_wanted = msgspec.json.Decoder(_Wanted).decode


def replay_routes(replays: Replays) -> list[Route]:
    """The routes."""

    async def start(request: Request) -> Answer:
        try:
            asked = _wanted(request.body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as e:
            raise Problem(422, f"the body can't be used: {e}") from e
        since = None if asked.ids else {"no": False, "yes": True, "any": None}[asked.redelivered]
        query = Query(asked.broker, asked.trigger, asked.reason, frozenset(asked.ids), asked.group, since)
        if asked.all == bool(asked.ids):
            raise Problem(422, "name `ids`, or say `all: true` for all that match the other fields")
        wanted = replays.new(query, checked_rate(asked.rate), request.who, request.peer)
        wanted.all_triggers = asked.all_triggers
        if asked.all_triggers:
            await confirmed(replays, query, asked.count)
        replay = replays.start(wanted)
        return Answer(document(replay), 202, facts={"replay": replay.id, "state": "started", **selection(replay)})

    def everything(request: Request) -> Answer:
        return Answer({"items": [document(replay) for replay in replays.known.values()]}, headers=_NO_STORE)

    def single(request: Request) -> Answer:
        return Answer(document(replays.find(request.params["id"])), headers=_NO_STORE)

    def cancel(request: Request) -> Answer:
        return Answer(document(replays.cancel(request.params["id"])))

    one = {200: models.ReplayDocument}
    return [
        Route(
            "POST",
            _PATH,
            start,
            "Replay dead letters",
            {202: models.ReplayDocument},
            problems=[409, 422, 503],
            body="`ids`: dead letters to replay; or `all: true`: all of `broker`, `trigger`, `reason` and `group`. "
            "Those whose trigger has got the event since, by a replay of past events or a rewind, are left out: say "
            "`redelivered: yes` for them alone, or `any`. "
            f"`rate`: events per second, 0 without a limit (default: {DEFAULT_RATE}). Each event goes to the trigger "
            "that gave it up, alone; with `all_triggers: true` to all triggers of its broker that match, if `count` "
            "says how many dead letters these are.",
            takes=[JSON],
            role="operator",
            action=ACTION,
        ),
        Route("GET", _PATH, everything, "The last replays", {200: models.ReplayList}, role="viewer"),
        Route("GET", f"{_PATH}/{{id}}", single, "How far a replay is", one, problems=[404], role="viewer"),
        Route(
            "POST",
            f"{_PATH}/{{id}}/cancel",
            cancel,
            "End a replay; what was not sent stays",
            one,
            problems=[404],
            role="operator",
            action="dlq.cancel",
        ),
    ]


async def confirmed(replays: Replays, query: Query, count: int | None) -> None:
    """Raises `Problem` unless so many dead letters would go to all triggers."""
    reach = await to_thread.run_sync(replays.reach, query)
    if count != reach.count:
        names = ", ".join(reach.triggers) or "none"
        raise Problem(
            409,
            f"{reach.count} events would go to all triggers that match ({names}), also to those that have them: if you "
            f"mean that, repeat with `count: {reach.count}`",
        )


def checked_rate(rate: int) -> int:
    """The rate. Raises `Problem`."""
    if not 0 <= rate <= MOST_RATE:
        raise Problem(422, f"the rate is a number of events per second from 0 (no limit) to {MOST_RATE}")
    return rate


def document(replay: Replay) -> dict[str, Any]:
    """A replay as JSON values."""
    return {
        "id": replay.id,
        "state": replay.state,
        "detail": replay.detail,
        "who": replay.who,
        "selection": selection(replay),
        "rate": replay.rate,
        "all_triggers": replay.all_triggers,
        "total": replay.total,
        "accepted": replay.accepted,
        "refused": replay.refused,
        "skipped": replay.skipped,
        "left": replay.total - (replay.removed if replay.ended else replay.accepted),
        "faults": [{"id": id_, "reason": reason} for id_, reason in replay.faults],
    }
