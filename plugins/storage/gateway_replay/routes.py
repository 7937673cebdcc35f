"""Routes for replays and rewinds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from gateway_api.roles import may
from gateway_api.routes import JSON, Answer, Problem, Request, Route

from gateway_core.contract.moments import moment_ns, written
from gateway_core.contract.services import GatewayView

from . import models
from .job import Job, Wanted, document
from .jobs import Jobs, facts
from .rewinds import Rewinder

_PATH = "/api/v1/event-replays"
_NO_STORE = {"cache-control": "no-store"}
_T = TypeVar("_T")


class _Asked(msgspec.Struct, forbid_unknown_fields=True, rename={"from_": "from"}):
    trigger: str
    from_: str
    to: str = "now"
    filters: list[str] = []
    rate: float = 0
    order: str = ""
    mark: bool = False
    to_sink: str = ""


class _Back(msgspec.Struct, forbid_unknown_fields=True):
    trigger: str
    to: str


_asked = msgspec.json.Decoder(_Asked).decode
_back = msgspec.json.Decoder(_Back).decode


def replay_routes(gateway: GatewayView, jobs: Callable[[], Awaitable[Jobs]]) -> list[Route]:
    """The routes."""
    rewinder = Rewinder(gateway)

    def wanted_by(request: Request) -> Wanted:
        asked = _read(request, _asked)
        now_ns = gateway.clock.now_ns()
        from_ns, to_ns = _moment("from", asked.from_, now_ns), _moment("to", asked.to, now_ns)
        filters = tuple(asked.filters)
        return Wanted(asked.trigger, from_ns, to_ns, filters, asked.rate, asked.order, asked.mark, asked.to_sink)

    async def shown(job: Job) -> dict[str, Any]:
        return {**document(job), "state": (await jobs()).state_of(job)}

    async def start(request: Request) -> Answer:
        wanted = wanted_by(request)
        if wanted.to_sink and not may(request.role, "admin"):
            raise Problem(403, "only an admin may say where events are sent: leave out `to_sink`")
        job = await (await jobs()).start(wanted, request.who, request.peer)
        return Answer(await shown(job), 202, facts={**facts(job), "state": "started"})

    async def preview(request: Request) -> Answer:
        wanted = wanted_by(request)
        found = await (await jobs()).preview(wanted)
        return Answer({"trigger": wanted.trigger, **found.counts.document()}, headers=_NO_STORE)

    async def everything(request: Request) -> Answer:
        known = (await jobs()).known.values()
        return Answer({"items": [await shown(job) for job in known]}, headers=_NO_STORE)

    async def single(request: Request) -> Answer:
        return Answer(await shown((await jobs()).find(request.params["id"])), headers=_NO_STORE)

    async def pause(request: Request) -> Answer:
        job = (await jobs()).pause(request.params["id"])
        return Answer(await shown(job), facts=facts(job))

    async def resume(request: Request) -> Answer:
        job = await (await jobs()).resume(request.params["id"])
        return Answer(await shown(job), facts=facts(job))

    async def cancel(request: Request) -> Answer:
        job = await (await jobs()).cancel(request.params["id"])
        return Answer(await shown(job), facts=facts(job))

    async def rewind(request: Request) -> Answer:
        asked = _read(request, _back)
        to_ns = _moment("to", asked.to, gateway.clock.now_ns())
        counts = await rewinder.rewind(asked.trigger, to_ns)
        told = {"trigger": asked.trigger, "to": written(to_ns), "count": counts.count}
        return Answer({"trigger": asked.trigger, **counts.document()}, facts=told)

    async def rewind_preview(request: Request) -> Answer:
        asked = _read(request, _back)
        counts = await rewinder.preview(asked.trigger, _moment("to", asked.to, gateway.clock.now_ns()))
        return Answer({"trigger": asked.trigger, **counts.document()}, headers=_NO_STORE)

    one = {200: models.EventReplay}
    selects = (
        "`trigger`; `from` and `to`: times (RFC 3339), or how long ago (`2h`), the events accepted from the first to "
        "before the second; `to` is now by default. `filters`: what they must match beside the trigger's own filter, "
        "each `NAME=VALUE` or a CloudEvents SQL expression."
    )
    how = (
        " `rate`: events per second (0: no limit); `order: key`: one event of each key at once; `mark`: adds the "
        "attribute `tidegatereplay`; `to_sink`, for admins: a URL that gets them in the trigger's place."
    )
    begins = Route(
        "POST",
        _PATH,
        start,
        "Replay past events to one trigger",
        {202: models.EventReplay},
        problems=[403, 404, 409, 422, 503],
        body=selects + how,
        takes=[JSON],
        role="operator",
        action="replay.start",
    )
    counts = Route(
        "POST",
        f"{_PATH}/preview",
        preview,
        "Count what a replay would send",
        {200: models.EventCounts},
        problems=[404, 409, 422, 503],
        body=selects + " The other fields of a replay are checked, too.",
        takes=[JSON],
        role="viewer",
    )
    changes = [
        Route(
            "POST",
            f"{_PATH}/{{id}}/{word}",
            handler,
            summary,
            one,
            problems=[404, 409, 503],
            role="operator",
            action=f"replay.{word}",
        )
        for word, handler, summary in (
            ("pause", pause, "Pause a replay; it stays paused over restarts"),
            ("resume", resume, "Continue a paused replay"),
            ("cancel", cancel, "End a replay; what was not sent is not sent"),
        )
    ]
    back = " `to`: a time (RFC 3339), or how long ago (`2h`)."
    return [
        counts,
        begins,
        Route("GET", _PATH, everything, "Replays of past events", {200: models.EventReplayList}, role="viewer"),
        Route("GET", f"{_PATH}/{{id}}", single, "How far a replay is", one, problems=[404], role="viewer"),
        *changes,
        Route(
            "POST",
            "/api/v1/rewinds/preview",
            rewind_preview,
            "Count what a trigger gets again if it is set back",
            {200: models.EventCounts},
            problems=[404, 409, 422, 503],
            body=f"`trigger`.{back}",
            takes=[JSON],
            role="viewer",
        ),
        Route(
            "POST",
            "/api/v1/rewinds",
            rewind,
            "Set a trigger back",
            {200: models.EventCounts},
            problems=[404, 409, 422, 503],
            body=f"`trigger`.{back} The trigger is paused meanwhile.",
            takes=[JSON],
            role="operator",
            action="replay.rewind",
        ),
    ]


def _read(request: Request, decoded: Callable[[bytes], _T]) -> _T:
    try:
        return decoded(request.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise Problem(422, f"the body can't be used: {e}") from e


def _moment(name: str, text: str, now_ns: int) -> int:
    try:
        return moment_ns(text, now_ns)
    except ValueError as e:
        raise Problem(422, f"`{name}`: {e}") from e
