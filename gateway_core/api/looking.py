"""Routes for people who look for an event: explain, its way, live events, the topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..explain import explain_text, sources_of
from . import models
from .http import JSON, Answer, Problem, Request
from .routes import Route

if TYPE_CHECKING:
    from ..build import Built
    from ..runtime import Gateway

_V1 = "/api/v1"
_NO_STORE = {"cache-control": "no-store"}


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    event: msgspec.Raw
    broker: str | None = None
    trigger: str | None = None


_question = msgspec.json.Decoder(_Question).decode


def looking_routes(gateway: Gateway) -> list[Route]:
    """All of them."""

    def explain(request: Request) -> Answer:
        question = _read(request)
        check_names(gateway.built, question.broker, question.trigger)
        built = gateway.built
        try:
            found = explain_text(bytes(question.event), built, sources_of(built), question.broker, question.trigger)
        except ValueError as e:
            raise Problem(422, str(e)) from e
        return Answer(found, headers=_NO_STORE)

    return [
        Route(
            *("POST", f"{_V1}/explain", explain, "What would be done with an event", {200: models.Explanation}),
            problems=[404, 422],
            body="`event`: a structured CloudEvent in JSON. `broker`, `trigger`: only that one.",
            takes=[JSON],
        ),
    ]


def check_names(built: Built, broker: str | None, trigger: str | None) -> None:
    """Raises `Problem` where there is no broker (or bridge), or no trigger, of this name."""
    owners = [*built.brokers, *built.bridges]
    if broker is not None and broker not in owners:
        raise Problem(404, f"there is no broker or bridge {broker!r}; there are: {', '.join(owners) or 'none'}")
    triggers = [*built.triggers, *built.orphans]
    if trigger is not None and trigger not in triggers:
        raise Problem(404, f"there is no trigger {trigger!r}; there are: {', '.join(triggers) or 'none'}")


def _read(request: Request) -> _Question:
    if request.media != JSON:
        raise Problem(415, f"an explanation is asked for in {JSON}")
    try:
        return _question(request.body)
    except msgspec.MsgspecError as e:
        raise Problem(422, f"not a question: {e}") from e
