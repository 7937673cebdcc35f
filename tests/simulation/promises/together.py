"""Promises about batches to subscribers, and about triggers that hold their events while a subscriber is down."""

from __future__ import annotations

from ..choices import KINDS, SERVER
from ..facts import EVER, Attempt, Facts
from ..plan import Trigger
from .accepting import retried
from .attempting import heard
from .registry import Found, promise

ABOUT_ALL = (401, 405, 415)
"""Rejections that any request would get."""
MULTI_STATUS = 207


def _always(facts: Facts, name: str) -> list[Trigger]:
    """The trigger in each config; empty if one lacks it."""
    found = facts.triggers(name, 0.0, EVER)
    return [t for t in found if t is not None] if None not in found else []


def _seen(facts: Facts, name: str, id: str, write: Attempt) -> list[Attempt]:
    """The attempts of an event before its dead letter, in the same life of the gateway."""
    attempts = facts.attempts_of.get((name, id), ())
    return [a for a in attempts if a.at < write.at and a.generation == write.generation]


@promise("delivery", "a trigger gives up no event for lack of an answer")
def a_trigger_that_holds_gives_up_no_event_for_lack_of_an_answer(facts: Facts) -> Found:
    """An event is given up for its answers: for a final one, or for as many failures as its policy allows. One
    attempt without an answer may count for each time that the subscriber was down."""
    for name, id, letter, write in facts.letters_by_attempt():
        found = _always(facts, name)
        if write is None or not found or not all(t.policy.hold_while_down for t in found):
            continue
        code = letter.get("knativeerrorcode")
        if code is not None and int(code) != MULTI_STATUS and not retried(int(code)):
            continue
        answered = sum(a.status is not None for a in _seen(facts, name, id, write))
        away = sum(1 for s in facts.spans if s.target == name and KINDS[s.kind].target == SERVER and s.begin < write.at)
        least = min(t.policy.retry for t in found) + 1
        if answered + away < least:
            yield (
                write.at,
                f"{name} gave {id} up after {answered} answers, with {away} faults; its policy has {least} tries",
            )


@promise(
    "howto/deliver-in-batches", "until the event that is rejected stands alone: only that one goes to the dead letter"
)
def only_the_event_that_is_rejected_is_given_up(facts: Facts) -> Found:
    for name, id, letter, write in facts.letters_by_attempt():
        found, code = _always(facts, name), letter.get("knativeerrorcode")
        if write is None or code is None or not found or not all(t.batch for t in found):
            continue
        if int(code) in ABOUT_ALL or not 400 <= int(code) < 500 or retried(int(code)):
            continue
        seen = _seen(facts, name, id, write)
        if not seen or not heard(facts, name, seen[-1]) or facts.changing(seen[-1].at - 60, write.at):
            continue
        last = seen[-1]
        own = last.replied is not None and last.replied.statuses
        if last.together > 1 and not own:
            yield write.at, f"{name} gave {id} up for the answer {code} to a batch of {last.together} events"


@promise("howto/deliver-in-batches", "These are the outcomes that single deliveries with the same statuses have")
def an_event_is_given_up_for_what_was_said_of_it(facts: Facts) -> Found:
    """The dead letter has the last status that the subscriber said of this event."""
    for name, id, letter, write in facts.letters_by_attempt():
        found, code = _always(facts, name), letter.get("knativeerrorcode")
        if write is None or code is None or not found or not all(t.batch for t in found):
            continue
        seen = _seen(facts, name, id, write)
        if not seen or facts.changing(seen[-1].at - 60, write.at) or not all(heard(facts, name, a) for a in seen):
            continue
        said = seen[-1].status or MULTI_STATUS
        if int(code) != said:
            yield write.at, f"the dead letter of {id} says {code}; {name} said {said}"


@promise("howto/deliver-in-batches", "A batch goes out when it has `max_events` events")
def a_batch_has_no_more_events_than_allowed(facts: Facts) -> Found:
    for name in facts.names:
        most = max((t.batch or 1 for t in facts.triggers(name, 0.0, EVER) if t is not None), default=1)
        for attempt in facts.by_server.get(name, ()):
            if attempt.together > most:
                yield attempt.at, f"{name} got {attempt.together} events in one request, not {most} at most"
