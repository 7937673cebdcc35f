"""Promises about order (docs/discussion/ordering.md)."""

from __future__ import annotations

from ..facts import EVER, Facts
from ..kafka_cluster import partition_of_key
from ..kafka_facts import channel
from ..plan import Event, Trigger
from .accepting import lost_with_power
from .registry import Found, promise


def sequence(facts: Facts, trigger: Trigger, event: Event) -> str | None:
    """The order key of an event; None if it waits for nothing, or nobody knows for what."""
    if trigger.policy.order == "partition" and channel(facts.plan.configs):
        wire = any(config.kafka is not None and config.kafka.wire for config in facts.plan.configs)
        return f"the partition {partition_of_key(event.key.encode(), wire=wire)}" if event.key else None
    if trigger.policy.order == "partition":
        return "the partition"
    if trigger.policy.order == "key" and event.key:
        return event.key
    return None


@promise(
    "ordering", "A retry keeps its place: until its event is settled, nothing else of its partition or key goes out."
)
def nothing_overtakes(facts: Facts) -> Found:
    order = facts.order_of_acceptance
    for name in facts.names:
        found = facts.triggers(name, 0.0, EVER)
        first = found[0] if found else None
        if first is None or any(t is None or t.policy.order != first.policy.order for t in found):
            continue
        if first.policy.order == "unordered" or any(t is None or t.filter != first.filter for t in found):
            continue
        if facts.faults(("mapper", "filter"), 0, EVER, name):
            continue
        sequences: dict[str, list[str]] = {}
        for id in order:
            event = facts.events[id]
            if facts.to[id] != "default" or not first.filter.wants(event):
                continue
            if (key := sequence(facts, first, event)) is not None and (name, id) in facts.attempts_of:
                sequences.setdefault(key, []).append(id)
        for key, ids in sequences.items():
            yield from _overtaken(facts, name, key, ids)


def _overtaken(facts: Facts, name: str, key: str, ids: list[str]) -> Found:
    order = facts.order_of_acceptance
    starts = {id: facts.attempts_of[name, id][0].at for id in ids}
    settled = {id: facts.settled_at(name, id) for id in ids}
    for earlier in ids:
        if facts.letters_of.get((name, earlier)):
            continue  # nobody saw when
        first, end, send, place = order[earlier]
        if lost_with_power(facts, first):
            continue
        for later in ids:
            begin, _, send2, place2 = order[later]
            before = end < begin or (send == send2 and place < place2)
            if before and starts[later] < settled[earlier]:
                yield starts[later], f"{name} got {later} before {earlier} of the same key {key} was settled"


@promise("ordering", "one for each key, up to `max_in_flight`")
def one_of_a_key_at_a_time(facts: Facts) -> Found:
    for name in facts.names:
        found = facts.triggers(name, 0.0, EVER)
        if not found or any(t is None or t.policy.order == "unordered" for t in found):
            continue
        trigger = found[0]
        if trigger is None or any(t is None or t.policy.order != trigger.policy.order for t in found):
            continue
        if facts.faults(("mapper",), 0, EVER, name):
            continue
        limit = min(p.timeout_s for p in facts.policies(name))
        flying: dict[str, tuple[float, str, int]] = {}
        for attempt in facts.by_server.get(name, ()):
            event = facts.events.get(attempt.id)
            if event is None or facts.to[attempt.id] != "default" or (key := sequence(facts, trigger, event)) is None:
                continue
            end, id, generation = flying.get(key, (0.0, "", 0))
            if end > attempt.at and generation == attempt.generation:
                yield attempt.at, f"{name} got {attempt.id} while {id} of the same key {key} was under way"
            end = min(attempt.answered, attempt.at - facts.lag + limit - 0.1)
            calm = attempt.status is not None and facts.calm(name, attempt.at, min(attempt.answered, attempt.at + 40))
            if calm and not facts.changing(attempt.at - 60, attempt.at + 60):
                flying[key] = end, attempt.id, attempt.generation
            else:
                flying.pop(key, None)
