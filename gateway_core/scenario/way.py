"""An event's way through the gateway, told in lines."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

from ..delivery.deadletter import FACTS
from ..event import text_of
from ..interfaces import Clause, Outcome
from .record import Attempt, Passage, Trail


def way_of(trail: Trail) -> list[str]:
    """What happened to one event, indented by what belongs to what."""
    return list(_lines(trail))


def _lines(trail: Trail) -> Iterator[str]:
    if trail.refused is not None:
        yield f"an event to {trail.to} at {_s(trail.at_s)}: refused, {trail.refused.status}: {trail.refused.detail}"
        return
    assert trail.event is not None
    kind = trail.event.attributes.get("type", trail.event.attributes.get("eventType", "?"))
    cause = f", the reply of {trail.reply_of.key[1]}" if trail.reply_of is not None else ""
    yield f"event {trail.id} ({kind}) to {trail.to} at {_s(trail.at_s)}{cause}"
    if not trail.passages:
        yield "  no trigger looks at it"
    for passage in trail.passages.values():
        yield from (f"  {line}" for line in _passage(passage))


def _passage(passage: Passage) -> Iterator[str]:
    kind, name = passage.key
    if not passage.clause.matched:
        yield f"{kind} {name}: not matched"
        yield from (f"  {line}" for line in clause_lines(passage.clause))
        return
    yield f"{kind} {name}: matched" + ("; its subscriber reads it by itself" if passage.reads else "")
    before: Attempt | None = None
    for attempt in passage.attempts:
        waited = ""
        if before is not None and before.ended_s is not None:
            waited = f", {_s(attempt.at_s - before.ended_s)} after the one before"
        yield f"  attempt {attempt.number} at {_s(attempt.at_s)}{waited}: {said(attempt.outcome)}"
        before = attempt
    if passage.letter is not None:
        yield f"  in the dead letter {passage.letter_to} at {_s(passage.letter_s or 0.0)}"
        facts = {n: text_of(v) for n, v in passage.letter.attributes.items() if n in FACTS}
        yield from (f"    {fact}: {facts[fact]}" for fact in FACTS if fact in facts)
    elif passage.returned:
        yield f"  given back to the sender: {passage.returned}"
    elif passage.delivered_s is None:
        yield "  still waiting"


def said(outcome: Outcome | None) -> str:
    """What the far side said."""
    if outcome is None:
        return "no answer yet"
    if not outcome.delivered:
        again = "" if outcome.retry else ", for good"
        return f"{outcome.reason}{again}"
    word = "delivered" if outcome.code is None else f"{outcome.code} {HTTPStatus(outcome.code).phrase}"
    return word + (", with a reply" if outcome.reply is not None else "")


def clause_lines(clause: Clause, failed_only: bool = True) -> Iterator[str]:
    """A filter as lines: ✓ or ✗ as words, and what was found. With `failed_only`, of conditions that hold nothing."""
    word = "holds" if clause.matched else "fails"
    yield f"{word}: {clause.text}" + (f" ({clause.found})" if clause.found else "")
    for part in clause.parts:
        if not failed_only or not part.matched or clause.text in ("not", "any"):
            yield from (f"  {line}" for line in clause_lines(part, failed_only))


def _s(seconds: float) -> str:
    return f"{round(seconds, 6):g} s"
