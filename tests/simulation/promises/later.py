"""Promises about delays: never early, not late, none lost, and what operators change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from ..facts import EVER, Facts
from ..history import Operated, Waits
from ..plan import DUE, EPOCH_S, Event, Trigger
from .accepting import lost_with_power, possible, stored, wanted_by
from .registry import Found, promise

DURATIONS = {"PT1S": 1.0, "3s": 3.0, "20s": 20.0, "PT2M": 120.0, "30m": 1800.0}
"""The durations that plans have, in seconds."""
PRECISE_S = 0.001
"""The clock's numbers are rounded."""


class Clock:
    """What the gateway's clock showed at each time of a run."""

    def __init__(self, facts: Facts) -> None:
        steps = [(s.begin, float(s.amount)) for s in facts.spans if s.kind == "clock"]
        self.pieces: list[tuple[float, float, float]] = []
        """From when to when it showed how much more than the time since the world began."""
        offset, begin = float(EPOCH_S), 0.0
        for at, amount in sorted(steps):
            self.pieces.append((begin, at, offset))
            begin, offset = at, offset + amount
        self.pieces.append((begin, EVER, offset))

    def between(self, begin: float, end: float) -> tuple[float, float]:
        """The least and the most that it showed in this time."""
        shown = [
            max(a, begin if edge == a else min(b, end)) + offset
            for a, b, offset in self.pieces
            if a <= end and b >= begin
            for edge in (a, b)
        ]
        return min(shown), max(shown)

    def reached(self, value: float, begin: float) -> float:
        """The first time from `begin` on at which it shows this, or more."""
        for a, b, offset in self.pieces:
            at = max(a, begin, value - offset)
            if at <= b and b >= begin:
                return at
        return EVER

    def steady(self, begin: float, end: float) -> bool:
        """Whether it was not set in this time."""
        return not any(begin <= a <= end for a, _, _ in self.pieces[1:])


class Due(NamedTuple):
    """The first and the last time at which an event may be due at a trigger."""

    first: float
    last: float


def due_at(
    facts: Facts, clock: Clock, name: str, event: Event, begin: float, end: float, until: float = EVER
) -> Due | None:
    """For an event that was received in this time, by the configs until then; None if a trigger may lack."""
    found = facts.triggers(name, begin - facts.lag, until)
    times = [_due(t, event, *clock.between(begin, end)) for t in found if t is not None]
    if not times or len(times) < len(found):
        return None
    return Due(min(t.first for t in times), max(t.last for t in times))


def _due(trigger: Trigger, event: Event, first: float, last: float) -> Due:
    text = dict(event.extra).get(DUE) if trigger.deliver_at else None
    if text is not None and text not in DURATIONS:
        at = datetime.fromisoformat(text).timestamp()
        return Due(at, at)
    wait = trigger.delay_s if text is None else DURATIONS[text]
    return Due(first + wait, last + wait)


def hurried(facts: Facts, name: str, id: str) -> bool:
    """Whether an operator has asked for the event."""
    return any(o.what == "now" and (o.trigger, o.id) == (name, id) for o in facts.plan.operations)


@promise("howto/delay-events", "An event is never delivered early, by the clock of the log's machine.")
def a_delayed_event_is_never_early(facts: Facts) -> Found:
    clock = Clock(facts)
    for (name, id), attempts in facts.attempts_of.items():
        event = facts.events.get(id)
        if event is None or hurried(facts, name, id):
            continue
        copies = [c for c in possible(facts, id) if c.begin <= attempts[0].at]
        at = attempts[0].at
        dues = [due_at(facts, clock, name, event, c.begin, min(c.end, at), at) for c in copies]
        sure = [due.first for due in dues if due is not None]
        if not sure or len(sure) < len(dues):
            continue
        # an attempt that had begun may follow a clock that was set back since
        shown = clock.between(min(c.begin for c in copies), at)[1]
        if shown < min(sure) - PRECISE_S:
            yield at, f"{name} got {id} {min(sure) - shown:.3f} s before it was due by the clock"


@promise("howto/delay-events", "It is late only by what waits before it, and by retries.")
def a_delayed_event_is_not_late(facts: Facts) -> Found:
    """If all is well around the time at which it is due."""
    clock = Clock(facts)
    for id, begin, end in stored(facts):
        event = facts.events[id]
        if end == EVER or len(possible(facts, id)) != 1 or lost_with_power(facts, begin):
            continue
        for name in wanted_by(facts, event, begin, end):
            due = due_at(facts, clock, name, event, begin, end)
            if due is None or hurried(facts, name, id) or any(p.max_in_flight < 16 for p in facts.policies(name)):
                continue
            at = max(end, clock.reached(due.last, begin))
            until = at + 2.0 + facts.lag
            life = facts.life(at)
            if life is None or life.begin > at - 5.0 or until > min(life.end, facts.end):
                continue
            if not clock.steady(begin, until) or facts.changing(at - 60, until):
                continue
            if any(s.target == name and s.begin < until for s in facts.spans):
                continue
            if facts.faults(("crash", "power", "restart"), at - 5.0, until) or _cancelled(facts, name, id):
                continue
            if not any(a.at <= until for a in facts.attempts_of.get((name, id), ())):
                yield at, f"{id} was due, but {name} did not get it within 2 s"


def _cancelled(facts: Facts, name: str, id: str) -> bool:
    return any(_of(facts, o) == ("cancel", name, id) for o in facts.history.of(Operated) if o.count)


def _of(facts: Facts, operated: Operated) -> tuple[str, str, str]:
    operation = facts.plan.operations[operated.number]
    return operation.what, operation.trigger, operation.id


def _missing(facts: Facts) -> Iterator[tuple[float, str, str]]:
    """The events that were neither delivered nor are listed, nor were cancelled, with when they were received."""
    waits = {(w.trigger, w.id) for w in facts.history.of(Waits)}
    for id, begin, end in stored(facts):
        if lost_with_power(facts, begin):
            continue
        for name in wanted_by(facts, facts.events[id], begin, min(end, facts.end)):
            if not (facts.settled(name, id) or (name, id) in waits or _cancelled(facts, name, id)):
                yield begin, name, id


@promise("howto/delay-events", "It is delivered at least once.")
def a_delayed_event_is_delivered_or_waits(facts: Facts) -> Found:
    if not any(config.max_age_s for config in facts.plan.configs):
        for at, name, id in _missing(facts):
            yield at, f"{id} was accepted, but {name} neither got it, nor does it wait, nor was it cancelled"


@promise("howto/delay-events", "So retention may delete the event from the log, and never removes the copy.")
def retention_removes_no_event_that_waits(facts: Facts) -> Found:
    if any(config.max_age_s for config in facts.plan.configs):
        for at, name, id in _missing(facts):
            yield at, f"{id} was accepted, but {name} neither got it, nor does it wait: retention may have it"


@promise(
    "howto/delay-events", "counts the [delayed events](../reference/glossary.md#delayed-event) (`delayed`) of each"
)
def what_waits_is_counted(facts: Facts) -> Found:
    waits = list(facts.history.of(Waits))
    if not facts.statuses:
        return
    last = facts.statuses[0] if not waits else next(s for s in facts.statuses if s.at >= waits[0].at)
    for trigger in last.document["triggers"] if waits else ():
        listed = sum(w.trigger == trigger["name"] for w in waits)
        if trigger.get("delayed", 0) != listed:
            yield last.at, f"{listed} events wait for {trigger['name']}, its status says {trigger.get('delayed')}"


@promise("howto/delay-events", "`cancel` and `now` change all events with this id and source that wait for the trigger")
def what_is_cancelled_does_not_come(facts: Facts) -> Found:
    for operated in facts.history.of(Operated):
        what, name, id = _of(facts, operated)
        if what == "cancel" and operated.count and len(possible(facts, id)) == 1:
            after = [a.at for a in facts.attempts_of.get((name, id), ()) if a.at > operated.at + facts.lag]
            if after:
                yield after[0], f"{name} got {id}, which was cancelled at {operated.at:.3f} s"
