"""Promises about rewinds."""

from __future__ import annotations

from collections import defaultdict

from ..facts import EVER, Attempt, Facts
from ..history import Happened, Rewound
from ..plan import Rewind
from .accepting import lost_with_power, stored
from .registry import Found, promise

SURE_S = 0.001
"""The gateway takes an event between the begin and the end of its sending."""
WRITTEN_S = 1.0
"""What was answered so long ago is settled durably."""
_SENTENCE = "Everything accepted since that time that matches is then delivered at least once again"


def _dead(facts: Facts, name: str) -> set[str]:
    return {id for trigger, id in (*facts.dead_of, *facts.letters_of) if trigger == name}


def _wanted(facts: Facts, name: str, id: str) -> bool:
    found = facts.triggers(name, 0, EVER)
    return all(t is not None and t.filter.wants(facts.events[id]) for t in found)


@promise("delivery", _SENTENCE)
def after_a_rewind_everything_since_then_comes_again(facts: Facts) -> Found:
    copies = list(stored(facts))
    for rewound in facts.history.of(Rewound):
        rewind = facts.plan.rewinds[rewound.number]
        dead = _dead(facts, rewind.trigger)
        for id, begin, end in copies:
            if not (rewind.to + SURE_S < begin and end < rewound.asked):
                continue
            attempts = facts.attempts_of.get((rewind.trigger, id), ())
            came = any(a.took and a.at >= rewound.asked for a in attempts)
            excused = id in dead or lost_with_power(facts, begin) or not _wanted(facts, rewind.trigger, id)
            if not came and not excused:
                yield rewound.at, f"{id} did not come to {rewind.trigger} again after rewind {rewound.number}"


@promise("delivery", "and nothing from before it that was settled")
def a_rewind_repeats_nothing_from_before(facts: Facts) -> Found:
    """Of events that were settled a while ago, unless a crash, a reload or another fault made the gateway send them
    again."""
    troubles = sorted(record.at for record in facts.history.of(Happened))
    troubles += [at for life in facts.lives.values() for at in (life.begin, life.end)]
    copies = {id: (begin, end) for id, begin, end in stored(facts)}
    for rewound in facts.history.of(Rewound):
        rewind = facts.plan.rewinds[rewound.number]
        if any(other.to < rewind.to for other in facts.plan.rewinds):
            continue  # that one sends them again
        for id, (_, end) in copies.items():
            if end > rewind.to - SURE_S or len(facts.copies.get(id, ())) > 1:
                continue
            attempts = facts.attempts_of.get((rewind.trigger, id), ())
            took = next((a for a in attempts if a.took and a.answered < rewound.first - WRITTEN_S), None)
            late = next((a for a in attempts if a.at > rewound.first), None)
            if took is None or late is None or any(took.at - facts.lag <= at <= late.at for at in troubles):
                continue
            yield late.at, f"{id} came to {rewind.trigger} again by rewind {rewound.number}, from before its time"


@promise("delivery", "of one key in the order of the log")
def what_a_rewind_repeats_is_in_order(facts: Facts) -> Found:
    """Events of one connection with one key, each sent when the one before was answered, are in the log in this order;
    with several workers in the shard of one of them, unless the connection was lost."""
    sends = facts.plan.sends
    if any(config.workers > 1 for config in facts.plan.configs):
        return
    for rewound in facts.history.of(Rewound):
        rewind = facts.plan.rewinds[rewound.number]
        if not _ordered(facts, rewind):
            continue
        dead = _dead(facts, rewind.trigger)
        chains: dict[tuple[int, str], list[tuple[float, str]]] = defaultdict(list)
        for id, begin, end in stored(facts):
            if rewind.to + SURE_S < begin and end < rewound.asked and len(facts.copies[id]) == 1 and id not in dead:
                send = sends[facts.copies[id][0].send]
                if send.events[0].key:
                    chains[send.connection, send.events[0].key].append((begin, id))
        for (_, key), found in chains.items():
            before: list[Attempt] = []
            for _, id in sorted(found):  # one that was tried again is stored after later ones
                late = [a for a in facts.attempts_of.get((rewind.trigger, id), ()) if a.at >= rewound.at]
                if not late:
                    continue  # it came before the answer did
                if before and not any(a.took and a.answered <= late[0].at for a in before):
                    yield late[0].at, f"{id} came to {rewind.trigger} before {before[0].id} of key {key} was settled"
                before = [a for a in facts.attempts_of[rewind.trigger, id] if a.at >= rewound.asked]


def _ordered(facts: Facts, rewind: Rewind) -> bool:
    found = facts.triggers(rewind.trigger, 0, EVER)
    return all(t is not None and t.policy.order == "key" for t in found)
