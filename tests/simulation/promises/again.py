"""Promises about replays of past events. Their events have the attribute `tidegatereplay`: the plan asks for it."""

from __future__ import annotations

from collections import defaultdict

from ..facts import EVER, Attempt, Facts
from ..history import ReplayBegan
from .accepting import lost_with_power, stored
from .registry import Found, promise

MARK = "tidegatereplay"
SURE_S = 0.001
"""The gateway takes an event between the begin and the end of its sending."""


def marked(facts: Facts) -> dict[str, list[Attempt]]:
    """The attempts of replays, by their ids."""
    found: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in facts.attempts:
        if MARK in attempt.attributes:
            found[attempt.attributes[MARK]].append(attempt)
    return found


@promise("delivery", "sends the events that were accepted from one time to before another to one trigger again")
def a_replay_reaches_its_trigger_whole_and_no_other(facts: Facts) -> Found:
    by_id, copies = marked(facts), list(stored(facts))
    for began in facts.history.of(ReplayBegan):
        replay = facts.plan.replays[began.number]
        got = {attempt.id for attempt in by_id[began.id] if attempt.took}
        dead = {id for name, id in (*facts.dead_of, *facts.letters_of) if name == replay.trigger}
        for id, begin, end in copies:
            inside = replay.since + SURE_S < begin and end < replay.until - SURE_S and end < replay.at
            wants = all(
                t is not None and t.filter.wants(facts.events[id]) for t in facts.triggers(replay.trigger, 0, EVER)
            )
            if inside and wants and id not in got and id not in dead and not lost_with_power(facts, begin):
                yield began.at, f"{id} was selected by replay {began.number}, and never came to {replay.trigger}"
        for attempt in by_id[began.id]:
            if attempt.arrived.server != replay.trigger and not attempt.arrived.dead:
                yield attempt.at, f"{attempt.arrived.server} got {attempt.id} of a replay to {replay.trigger}"
            sent = facts.copies.get(attempt.id, ())
            if all(c.end < replay.since - SURE_S or c.begin > replay.until + SURE_S for c in sent):
                yield attempt.at, f"{attempt.id} is not of the time of replay {began.number}"


@promise("delivery", "with an order in the order of the log")
def replayed_events_keep_their_order(facts: Facts) -> Found:
    """Events of one connection with one key, each sent when the one before was answered, are in the log in this
    order."""
    by_id, sends = marked(facts), facts.plan.sends
    of = {event.id: (n, send.connection, event.key) for n, send in enumerate(sends) for event in send.events}
    once = {id for id, copies in facts.copies.items() if len(copies) == 1}
    for began in facts.history.of(ReplayBegan):
        replay = facts.plan.replays[began.number]
        dead = {id for name, id in (*facts.dead_of, *facts.letters_of) if name == replay.trigger}
        ordered = replay.order == "key" or all(
            t is not None and t.policy.order == "key" for t in facts.triggers(replay.trigger, 0, EVER)
        )
        keyed: dict[tuple[int, str], dict[int, list[Attempt]]] = defaultdict(lambda: defaultdict(list))
        for attempt in by_id[began.id] if ordered else ():
            number, connection, key = of[attempt.id]
            if key and attempt.id in once:
                keyed[connection, key][number].append(attempt)
        for (_, key), events in keyed.items():
            before: list[Attempt] = []
            for _, attempts in sorted(events.items()):
                at = attempts[0].at
                if before and before[0].id not in dead and not any(a.took and a.answered <= at for a in before):
                    yield (
                        at,
                        f"{attempts[0].id} came to {replay.trigger} before {before[0].id} of key {key} was settled",
                    )
                before = attempts
