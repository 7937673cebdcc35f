"""The history of an event as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

from gateway_core.contract.dead_letter_facts import FACTS
from gateway_core.contract.event import text_of
from gateway_core.contract.interfaces import Clause, Outcome

from .record import Attempt, DeliveryRecord, EventHistory


def history_of(history: EventHistory) -> list[str]:
    """What happened to one event, as an indented tree."""
    return list(_lines(history))


def _lines(history: EventHistory) -> Iterator[str]:
    if history.refused is not None:
        refused = history.refused
        yield f"an event to {history.to} at {_s(history.at_s)}: refused, {refused.status}: {refused.detail}"
        return
    assert history.event is not None
    kind = history.event.attributes.get("type", history.event.attributes.get("eventType", "?"))
    cause = f", the reply of {history.reply_of.key[1]}" if history.reply_of is not None else ""
    yield f"event {history.id} ({kind}) to {history.to} at {_s(history.at_s)}{cause}"
    if history.repeated:
        yield "  a duplicate: the broker has an event with its key already"
        return
    if not history.deliveries:
        yield "  its broker has no trigger"
    for delivery in history.deliveries.values():
        yield from (f"  {line}" for line in _delivery_lines(delivery))
    for delivery in history.replays:
        yield from (f"  {line}" for line in _delivery_lines(delivery, "replayed"))


def _delivery_lines(delivery: DeliveryRecord, how: str = "matched") -> Iterator[str]:
    kind, name = delivery.key
    if not delivery.clause.matched:
        yield f"{kind} {name}: not matched"
        yield from (f"  {line}" for line in clause_lines(delivery.clause))
        return
    yield f"{kind} {name}: {how}" + ("; its subscriber reads it by itself" if delivery.reads else "")
    before: Attempt | None = None
    for attempt in delivery.attempts:
        waited = ""
        if before is not None and before.ended_s is not None:
            waited = f", {_s(attempt.at_s - before.ended_s)} after the one before"
        yield f"  attempt {attempt.number} at {_s(attempt.at_s)}{waited}: {said(attempt.outcome)}"
        before = attempt
    if delivery.dead_letter is not None:
        yield f"  in the dead letter {delivery.dead_letter_to} at {_s(delivery.dead_letter_s or 0.0)}"
        facts = {n: text_of(v) for n, v in delivery.dead_letter.attributes.items() if n in FACTS}
        yield from (f"    {fact}: {facts[fact]}" for fact in FACTS if fact in facts)
    elif delivery.returned:
        yield f"  returned to the sender: {delivery.returned}"
    elif delivery.delivered_s is None:
        yield "  still waiting"


def said(outcome: Outcome | None) -> str:
    """The response of the remote."""
    if outcome is None:
        return "no response yet"
    if not outcome.delivered:
        again = "" if outcome.retry else ", for good"
        return f"{outcome.reason}{again}"
    word = "delivered" if outcome.code is None else f"{outcome.code} {HTTPStatus(outcome.code).phrase}"
    return word + (", with a reply" if outcome.reply is not None else "")


def clause_lines(clause: Clause, failed_only: bool = True) -> Iterator[str]:
    """A filter as lines of text: whether each condition holds, and the value found. With `failed_only`, only conditions
    that fail."""
    word = "holds" if clause.matched else "fails"
    yield f"{word}: {clause.text}" + (f" ({clause.found})" if clause.found else "")
    for part in clause.parts:
        if not failed_only or not part.matched or clause.text in ("not", "any"):
            yield from (f"  {line}" for line in clause_lines(part, failed_only))


def _s(seconds: float) -> str:
    return f"{round(seconds, 6):g} s"
