"""Promises to senders: what an answer means, and that nothing accepted is lost, altered or made up."""

from __future__ import annotations

from collections.abc import Iterator

from ..decoding import data_of
from ..facts import DISK, EVER, FACTS, STOPS, SYNCS, Attempt, Copy, Facts
from ..kafka_facts import channel, channel_troubled
from ..plan import MODES, QUEUES, Event
from ..senders import WAIT_S
from .registry import Found, promise


def possible(facts: Facts, id: str) -> list[Copy]:
    """The sendings that may have stored the event."""
    return [c for c in facts.copies.get(id, ()) if c.stored is not False]


def stored(facts: Facts) -> Iterator[tuple[str, float, float]]:
    """The events of the broker that are stored for certain: with a 2xx, or because one of their batch was seen. Each
    with the begin and the end of its sending."""
    # a topic may take a part of a batch (docs/howto/kafka-channel.md)
    seen = set() if channel(facts.plan.configs) else {a.id for a in facts.attempts}
    if facts.plan.configs[0].once is not None:
        seen = set()  # they may have come with another request
    for number, send in enumerate(facts.plan.sends):
        if send.to != "default":
            continue
        for event in send.events:
            copies = [c for c in facts.copies.get(event.id, ()) if c.send == number]
            sure = [c for c in copies if c.stored]
            if sure:
                yield event.id, sure[0].begin, sure[0].end
            elif any(e.id in seen for e in send.events) and copies and send.mode not in (*MODES, *QUEUES):
                unsure = [c for c in copies if c.stored is None]
                if unsure:
                    yield event.id, unsure[0].begin, EVER


def wanted_by(facts: Facts, event: Event, begin: float, end: float) -> Iterator[str]:
    """The triggers that want an event whatever moment it was stored at, and that stayed to the end."""
    for name in facts.names:
        found = facts.triggers(name, begin - facts.lag, EVER)
        if not found or any(t is None or not t.filter.wants(event) for t in found):
            continue
        # a trigger that is added later, or again, begins with what comes then
        always = all(t is not None for t in facts.triggers(name, 0.0, EVER))
        if always or not (facts.changing(begin, end) or channel(facts.plan.configs)):
            yield name


def lost_with_power(facts: Facts, begin: float) -> bool:
    """Whether what was accepted at this time may be gone: it was not synced when the power was lost."""
    lied = any(first <= begin <= last and begin <= power for first, last, power in facts.lies)
    return lied or any(at >= begin for at in facts.forgetful)


@promise("delivery", "Every accepted event is delivered at least once to every trigger whose filter matches")
def every_accepted_event_is_settled(facts: Facts) -> Found:
    for id, begin, end in stored(facts):
        event = facts.events[id]
        if lost_with_power(facts, begin):
            continue
        for name in wanted_by(facts, event, begin, min(end, facts.end)):
            if not facts.settled(name, id):
                yield end if end < EVER else begin, f"{id} was accepted, but trigger {name} never settled it"


@promise("delivery", "A batch is accepted as a whole or not at all.")
def a_batch_is_whole(facts: Facts) -> Found:
    seen: dict[str, set[str]] = {}
    for name, id in facts.attempts_of:
        seen.setdefault(name, set()).add(id)
    for name, id in (*facts.dead_of, *facts.letters_of):
        seen.setdefault(name, set()).add(id)
    for send in facts.plan.sends:
        if (
            send.to != "default"
            or len(send.events) < 2
            or send.mode in (*MODES, *QUEUES)
            or channel(facts.plan.configs)
        ):
            continue
        copies = [c for c in facts.copies.get(send.events[0].id, ()) if c.stored is not False]
        if len(copies) != 1 or lost_with_power(facts, copies[0].begin):
            continue
        for name in facts.names:
            found = facts.triggers(name, copies[0].begin - facts.lag, EVER)
            if not found or any(t is None for t in facts.triggers(name, 0, EVER)):
                continue
            mine = [e for e in send.events if all(t is not None and t.filter.wants(e) for t in found)]
            missing = [e.id for e in mine if e.id not in seen.get(name, ())]
            if missing and len(missing) < len(mine):
                yield copies[0].begin, f"{', '.join(missing)} of the batch of {send.events[0].id} never came to {name}"


@promise("delivery", "this is not a valid CloudEvent; the response names the attribute and the rule. Sending it again")
def what_was_refused_does_not_appear(facts: Facts) -> Found:
    for attempt in facts.attempts:
        id = attempt.id
        if id not in facts.events:
            yield attempt.at, f"{attempt.arrived.server} got an event that nobody sent: {attempt.attributes}"
            continue
        copies = [c for c in facts.copies.get(id, ()) if c.begin <= attempt.at]
        if not any(c.stored is not False for c in copies):
            answers = ", ".join(str(c.status) for c in copies) or "nothing, it was not sent yet"
            yield attempt.at, f"{attempt.arrived.server} got {id}, whose sender had: {answers}"


@promise("delivery", "Every accepted event is delivered at least once to every trigger whose filter matches")
def only_those_who_want_it_get_it(facts: Facts) -> Found:
    for (name, id), attempts in facts.attempts_of.items():
        event = facts.events.get(id)
        if event is None:
            continue
        if facts.to[id] != "default":
            if name != facts.to[id]:
                yield attempts[0].at, f"{name} got {id}, which was sent to {facts.to[id]}"
            continue
        first = facts.copies[id][0].begin if facts.copies.get(id) else 0.0
        found = [t for t in facts.triggers(name, first - facts.lag, attempts[-1].at + facts.lag) if t is not None]
        if not any(t.filter.wants(event) for t in found) and not facts.changing(first, attempts[-1].at):
            yield attempts[0].at, f"{name} got {id}, which its filter does not match"


@promise("delivery", "never delivered altered")
def events_stay_as_they_are(facts: Facts) -> Found:
    for attempt in facts.attempts:
        event = facts.events.get(attempt.id)
        if event is None:
            continue
        got = {n: v for n, v in attempt.attributes.items() if not (attempt.arrived.dead and n in FACTS)}
        if got != event.attributes:
            yield attempt.at, f"{attempt.arrived.server} got {event.id} with {got}, not {event.attributes}"
        elif (data := data_of(attempt.arrived, attempt.place)) != event.data:
            yield attempt.at, f"{attempt.arrived.server} got {event.id} with {data[:40]!r}, not {event.data[:40]!r}"
    for at, letter, attributes in facts.letters:
        event = facts.events.get(attributes.get("id", ""))
        if event is None:
            yield at, f"a dead letter is no event that was sent: {attributes}"
        elif {n: v for n, v in attributes.items() if n not in FACTS} != event.attributes or letter.data != event.data:
            yield at, f"the dead letter of {event.id} differs: {attributes}, {letter.data[:40]!r}"


@promise("delivery", "not now: send it again after `Retry-After`")
def answers_are_those_of_the_table(facts: Facts) -> Found:
    for copies in facts.copies.values():
        for copy in copies:
            if copy.status is None or copy.place or 200 <= copy.status < 300 or copy.status in (429, 503):
                continue
            to = facts.plan.sends[copy.send].to
            if copy.status == 422 and to != "default":
                continue
            if copy.status == 413 and channel(facts.plan.configs) and facts.faults(("kafka-produce",), 0, copy.end):
                continue
            if copy.status == 500 and facts.faults(("codec",), copy.begin, copy.end):
                continue
            if copy.status == 401 and facts.faults(("authenticator",), copy.begin, copy.end):
                continue
            if copy.status in (400, 408) and facts.faults(("sender-cut", "sender-stall", "freeze"), 0, copy.end):
                continue
            yield copy.end, f"a valid request to {to} (send {copy.send}) was answered {copy.status}"


@promise("delivery", "The gateway sends the 202 when the event is on disk (`sync: full`)")
def a_well_gateway_accepts(facts: Facts) -> Found:
    for copies in facts.copies.values():
        for copy in copies:
            if copy.status not in (429, 503) or copy.place or facts.plan.sends[copy.send].to != "default":
                continue
            begin, end = copy.begin - facts.lag, copy.end + facts.lag
            if channel_troubled(facts):
                continue
            if facts.faults(DISK, begin - 60, end) or facts.faults(SYNCS, 0, end):
                continue
            if facts.faults(("reload", "bad-config"), begin - 60, end) or facts.faults(("freeze",), begin - 5, end):
                continue
            if facts.faults(("authenticator",), copy.begin, copy.end) or facts.faults(("memory",), begin - 5, end):
                continue
            life = facts.life(copy.begin)
            if life is None or life.begin > begin or end > life.end:
                continue
            stopping = life.how == "stop" and any(
                s.kind == "restart" and s.begin <= end and s.begin >= life.begin for s in facts.spans
            )
            if not stopping:
                yield copy.end, f"send {copy.send} was answered {copy.status} though nothing was wrong"


@promise("delivery", "An authenticator that fails, or does not answer, lets nobody in")
def an_authenticator_that_fails_lets_nobody_in(facts: Facts) -> Found:
    spans = [s for s in facts.spans if s.kind == "authenticator"]
    troubled = ("freeze", "clock", "sender-stall", "sender-cut", "sender-leave", *STOPS)
    for copies in facts.copies.values():
        for copy in copies:
            if copy.place or copy.record or facts.plan.sends[copy.send].to != "default":
                continue
            if copy.status is None and spans and copy.end - copy.begin >= WAIT_S:
                if not facts.faults(troubled, copy.begin, copy.end):
                    yield copy.end, f"send {copy.send} was not answered, though the authenticator has a time limit"
                continue
            if not copy.stored:
                continue
            if any(s.amount == 2 and s.begin <= copy.end and copy.begin <= s.end for s in spans):
                continue  # slow, but it knows the sender
            if any(s.amount != 2 and s.begin <= copy.begin and copy.end <= s.end for s in spans):
                yield copy.end, f"send {copy.send} was answered {copy.status} while the authenticator failed"


@promise("delivery", "A [bridge](../reference/glossary.md#bridge) stores nothing: the sender's 2xx waits for the sink")
def a_bridge_answers_when_the_sink_has_it(facts: Facts) -> Found:
    for id, copies in facts.copies.items():
        for copy in copies:
            name = facts.to[id]
            if not copy.stored or copy.record or name == "default":
                continue
            took = [a.answered for a in facts.attempts_of.get((name, id), ()) if a.took]
            took += [a.answered for a in facts.dead_of.get((name, id), ()) if a.took]
            if not any(at <= copy.end for at in took):
                yield copy.end, f"the sender of {id} got {copy.status}, but no sink of bridge {name} had it"


@promise("delivery", "For a batch, one event that may succeed later is enough for a 503.")
def a_bridge_says_what_the_sink_said(facts: Facts) -> Found:
    for number, send in enumerate(facts.plan.sends):
        if send.to == "default":
            continue
        for copy in facts.copies.get(send.events[0].id, ()):
            if copy.status not in (422, 503) or copy.send != number:
                continue
            if not facts.calm(send.to, copy.begin, copy.end) or facts.changing(copy.begin, copy.end):
                continue
            last = [_last(facts, send.to, e.id, copy) for e in send.events]
            if any(a is None or a.status is None for a in last):
                continue
            statuses = [a.status or 0 for a in last if a is not None]
            wanted = 503 if any(map(retried, statuses)) else 422
            if any(not 200 <= s < 300 for s in statuses) and copy.status != wanted:
                yield copy.end, f"send {number} got {copy.status}, not {wanted}; the sink of {send.to} said {statuses}"


def _last(facts: Facts, name: str, id: str, copy: Copy) -> Attempt | None:
    found = [a for a in facts.attempts_of.get((name, id), ()) if copy.begin <= a.at <= copy.end]
    return found[-1] if found else None


def retried(status: int) -> bool:
    """Whether an answer is tried again (delivery.md: the outcome of an attempt)."""
    if 100 <= status < 200 or 300 <= status < 400:
        return False
    return status in (404, 408, 409, 429) or not 200 <= status < 500
