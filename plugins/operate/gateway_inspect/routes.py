"""The routes of inspection: explain, why, tap and the topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from gateway_access.decisions import Sender
from gateway_api.routes import JSON, Answer, Problem, Request, Route, Text

from . import models
from .context import InspectContext
from .delayed import delayed_routes
from .explain import add_duplicates, again_of, deciding, explain_text, sources_of
from .graph.svg import svg
from .graph.topology import topology
from .tap.choice import BadFilter, Choice, compile_all
from .tap.stream import MEDIA, stream
from .why import Wanted, beginning, why

if TYPE_CHECKING:
    from gateway_core.contract.topology import Topology

_V1 = "/api/v1"
_NO_STORE = {"cache-control": "no-store"}
_MOST_DATA = 65_536
_SVG = "image/svg+xml"
_TOO_DEEP = "the event is nested too deeply"


class _Sender(msgspec.Struct, forbid_unknown_fields=True):
    subject: str
    authenticator: str = ""
    claims: dict[str, Any] = {}


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    event: msgspec.Raw
    sender: _Sender | None = None
    broker: str | None = None
    trigger: str | None = None


_rest = msgspec.json.Decoder(dict[str, dict[str, int]] | None).decode
_question = msgspec.json.Decoder(_Question).decode


def inspect_routes(service: InspectContext) -> list[Route]:
    """All of them."""
    gateway = service.gateway

    async def explain(request: Request) -> Answer:
        question = _read(request)
        check_names(gateway.topology, question.broker, question.trigger)
        built = gateway.topology
        try:
            asked = question.sender
            sender = Sender(asked.subject, asked.authenticator, asked.claims) if asked is not None else None
            decide = deciding(gateway.config, gateway.registry, gateway.clock, sender)
            only = question.broker, question.trigger
            found = explain_text(bytes(question.event), built, sources_of(built), *only, decide, again_of(gateway))
            await add_duplicates(found, bytes(question.event), built, *only)
        except ValueError as e:
            raise Problem(422, str(e)) from e
        except RecursionError:
            raise Problem(422, _TOO_DEEP) from None
        return Answer(found, headers=_NO_STORE)

    def tap(request: Request) -> Answer:
        choice = _choice(request)
        trigger = choice.trigger if choice.trigger not in gateway.topology.bridges else None
        check_names(gateway.topology, choice.broker, trigger)
        try:
            compile_all(choice.filters, gateway.registry)
        except BadFilter as e:
            raise Problem(422, str(e)) from e
        return Answer(stream=stream(choice, service), media=MEDIA, headers=_NO_STORE)

    async def find(request: Request) -> Answer:
        wanted, rest = _wanted(request)
        check_names(gateway.topology, wanted.broker, None)
        search = beginning if wanted.prefix else why
        return Answer(await search(service, wanted, rest), headers=_NO_STORE)

    def graph(request: Request) -> Answer:
        return Answer(topology(gateway.config, gateway.topology).document(), headers=_NO_STORE)

    def drawing(request: Request) -> Answer:
        drawn = svg(topology(gateway.config, gateway.topology))
        return Answer(body=drawn.encode(), media=_SVG, headers=_NO_STORE)

    return [
        *delayed_routes(service),
        Route("GET", f"{_V1}/graph", graph, "The topology", {200: models.TopologyDocument}, role="viewer"),
        Route("GET", f"{_V1}/graph.svg", drawing, "The topology as SVG", {200: Text(_SVG)}, role="viewer"),
        Route(
            "GET",
            f"{_V1}/events",
            find,
            "What happened to an event",
            {200: models.EventReport},
            problems=[404, 422],
            query=_FIND,
            role="viewer",
        ),
        Route(
            "GET",
            f"{_V1}/tap",
            tap,
            "Live events, as server-sent events",
            {200: Text(MEDIA)},
            problems=[404, 422],
            query=_TAP,
            role="viewer",
        ),
        Route(
            "POST",
            f"{_V1}/explain",
            explain,
            "What the gateway would do with an event",
            {200: models.Explanation},
            problems=[404, 422],
            body="`event`: a structured CloudEvent in JSON. `broker`, `trigger`: only this one. "
            "`sender`: `subject`, `authenticator` and `claims` of who sends it.",
            takes=[JSON],
            role="viewer",
        ),
    ]


_TAP = {
    "broker": "Only events that this broker or bridge accepts.",
    "trigger": "The delivery attempts of this trigger or bridge, with their outcomes, instead of accepted events.",
    "filter": "Only events that match: NAME=VALUE (VALUE may end with *), or a CloudEvents SQL expression. All must "
    "match.",
    "data_bytes": "How many bytes of an event's data to show: 0 to 65536, default 0.",
}


_FIND = {
    "id": "The event's id.",
    "source": "Its source, if several events have this id.",
    "broker": "Only this broker or bridge.",
    "prefix": "`true`: `id` is only the beginning of the id; the answer has `matches` instead of `events`.",
    "rest": "`rest` of the previous response, as JSON, to continue the search.",
}


def _wanted(request: Request) -> tuple[Wanted, dict[str, Any] | None]:
    id = request.asked("id")
    if not id:
        raise Problem(422, "the id is missing: add `?id=…`")
    try:
        rest = _rest(request.asked("rest") or "null")
    except (msgspec.MsgspecError, RecursionError) as e:
        raise Problem(422, f"`rest` is not from a response: {e}") from None
    prefix = request.asked("prefix") or "false"
    if prefix not in ("true", "false"):
        raise Problem(422, "prefix is `true` or `false`")
    return Wanted(id, request.asked("source"), request.asked("broker"), prefix == "true"), rest


def _choice(request: Request) -> Choice:
    if unknown := request.query.keys() - _TAP.keys():
        raise Problem(422, f"unknown parameters: {', '.join(sorted(unknown))}; a tap has {', '.join(_TAP)}")
    size = request.asked("data_bytes") or "0"
    if not (size.isascii() and size.isdigit() and int(size) <= _MOST_DATA):
        raise Problem(422, f"data_bytes must be a number from 0 to {_MOST_DATA}")
    filters = tuple(request.query.get("filter", ()))
    return Choice(request.asked("broker"), request.asked("trigger"), filters, int(size))


def check_names(built: Topology, broker: str | None, trigger: str | None) -> None:
    """Raises `Problem` if there is no broker (or bridge), or no trigger, of this name."""
    owners = [*built.brokers, *built.bridges]
    if broker is not None and broker not in owners:
        raise Problem(404, f"there is no broker or bridge {broker!r}; there are: {', '.join(owners) or 'none'}")
    triggers = [*built.triggers, *built.orphans]
    if trigger is not None and trigger not in triggers:
        raise Problem(404, f"there is no trigger {trigger!r}; there are: {', '.join(triggers) or 'none'}")


def _read(request: Request) -> _Question:
    if request.media != JSON:
        raise Problem(415, f"send the body as {JSON}")
    try:
        return _question(request.body)
    except msgspec.MsgspecError as e:
        raise Problem(422, f"the body is not valid: {e}") from e
    except RecursionError:
        raise Problem(422, _TOO_DEEP) from None
