"""Promises of `deduplicate`. They read the log as it is at the end of the run, of which nothing is deleted."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from ..facts import Copy, Facts
from ..history import Answered, Kept, Sent
from .accepting import lost_with_power
from .registry import Found, promise

MS = 0.001
"""The log counts in milliseconds, and rounds down."""
RELIEF_S = 5.0
"""How long after it the log may still believe that the disk is full."""


def kept(facts: Facts) -> dict[str, list[Kept]]:
    """The events in the log by their ids, the oldest first."""
    found: dict[str, list[Kept]] = defaultdict(list)
    for one in sorted(facts.history.of(Kept), key=lambda one: one.received_s):
        found[one.id].append(one)
    return found


def windows(facts: Facts, begin: float, end: float) -> list[float]:
    """The windows that were in force at some moment of this time."""
    return [config.once.window_s for config in facts.configs(begin, end) if config.once is not None]


@promise("delivery", "of accepted events with one key within the window exactly one is in the log")
def a_key_is_once_in_the_log(facts: Facts) -> Found:
    for id, found in kept(facts).items():
        for first, second in pairwise(found):
            between = second.received_s - first.received_s
            window = min(windows(facts, second.received_s - facts.lag, second.received_s + facts.lag))
            if between < window - MS:
                places = f"at {first.position} and {second.position}"
                yield second.received_s, f"{id} is in the log twice within {between:.3f} s, {places}"


def accepted(facts: Facts, there: list[Kept], copy: Copy) -> list[Kept]:
    """Those of these events in the log by which a sending may have been accepted."""
    longest = max(windows(facts, copy.begin - facts.lag, copy.end + facts.lag), default=0.0)
    return [one for one in there if copy.begin - longest - MS <= one.received_s <= copy.end]


def deleted(facts: Facts, id: str, begin: float, end: float) -> bool:
    """Whether what a sending was accepted by may be deleted: on a disk that seems to be full, the log deletes what is
    delivered."""
    longest = max(windows(facts, begin - facts.lag, end + facts.lag), default=0.0)
    full = [span.end + RELIEF_S for span in facts.spans if span.kind in ("disk-full", "disk-error")]
    before = [c.begin for c in facts.copies.get(id, ()) if c.stored is not False and begin - longest <= c.begin <= end]
    return any(at <= then for at in before for then in full)


@promise(
    "delivery", "The key is written in the transaction that stores its event, so an append that fails leaves no key"
)
def what_is_accepted_is_in_the_log(facts: Facts) -> Found:
    """Within the window that the first began: a duplicate does not prolong it."""
    found = kept(facts)
    if facts.plan.configs[0].once is None or not found:
        return
    for id, copies in facts.copies.items():
        for copy in copies:
            if not copy.stored or lost_with_power(facts, copy.begin) or accepted(facts, found[id], copy):
                continue
            if not deleted(facts, id, copy.begin, copy.end):
                there = [round(one.received_s, 3) for one in found[id]]
                yield copy.end, f"{id} was accepted, and is in the log only as of {there} s"


@promise("delivery", "with the position of the first, once the first is in stable storage")
def a_duplicate_names_the_first(facts: Facts) -> Found:
    there = {one.position: one for one in facts.history.of(Kept)}
    begun = {(sent.send, sent.attempt): sent.at for sent in facts.history.of(Sent)}
    for answer in facts.history.of(Answered):
        if not answer.firsts or lost_with_power(facts, begin := begun[answer.send, answer.attempt]):
            continue
        ids = [event.id for event in facts.plan.sends[answer.send].events]
        longest = max(windows(facts, begin - facts.lag, answer.at + facts.lag))
        at = 0
        for position in answer.firsts:
            one = there.get(position)
            if one is None and any(deleted(facts, id, begin, answer.at) for id in ids):
                continue
            if one is None or one.id not in ids[at:]:
                yield answer.at, f"send {answer.send} of {ids} was told of {position}, where {one and one.id} is"
                break
            at = ids.index(one.id, at) + 1
            if not begin - longest - MS <= one.received_s <= answer.at:
                yield answer.at, f"{one.id} was told to be a duplicate of {position}, of {one.received_s:.3f} s"
