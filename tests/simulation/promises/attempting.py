"""Promises about attempts: how many, what their outcomes are, and what limits them."""

from __future__ import annotations

from itertools import pairwise

from ..facts import DISK, EVER, SYNCS, Attempt, Facts
from .accepting import possible, retried
from .registry import Found, promise


def certain_end(facts: Facts, name: str, attempt: Attempt) -> float:
    """Until when an attempt is in flight at least. Whatever its server does may end it."""
    limits = [p.timeout_s for p in facts.policies(name)]
    reply = attempt.replied
    done = reply.at if reply is not None and reply.how not in ("silent", "hang") else EVER
    return min(done, attempt.at - facts.lag + min(limits, default=0.0) - 0.1)


def heard(facts: Facts, name: str, attempt: Attempt) -> bool:
    """Whether the gateway got the server's answer for certain, within the time limit."""
    if attempt.status is None or attempt.arrived.connection < 0:
        return False
    if not facts.calm(name, attempt.at - facts.lag, attempt.answered + facts.lag):
        return False
    limits = [p.timeout_s for p in facts.policies(name)]
    return attempt.answered + facts.lag < attempt.at + min(limits, default=0.0) - 0.2


@promise("delivery", "2xx ──────────────────────────▶ delivered: acknowledge")
def what_is_delivered_does_not_come_again(facts: Facts) -> Found:
    for (name, id), attempts in facts.attempts_of.items():
        copies = len(possible(facts, id))
        for life in facts.lives.values():
            mine = [a for a in attempts if a.generation == life.generation]
            acked = [a for a in mine if a.took and heard(facts, name, a) and not _reloading(facts, a)]
            if len(acked) > copies:
                yield acked[-1].at, f"{name} took {id} {len(acked)} times, though it was sent {copies} times"
            elif len(acked) == copies and acked and any(a.at > acked[-1].answered + facts.lag for a in mine):
                late = next(a for a in mine if a.at > acked[-1].answered + facts.lag)
                yield late.at, f"{name} got {id} again, which it had taken at {acked[-1].answered:.3f} s"


def _reloading(facts: Facts, attempt: Attempt) -> bool:
    """An attempt that a reload had to cut off is made again."""
    return facts.changing(attempt.at - 60, attempt.answered + 1)


@promise(
    "delivery",
    "So after a `kill -9` a trigger sends again what was in flight (at most `max_in_flight` events), and what was "
    "delivered in about the last 0.05 s, or a little more on a busy disk.",
)
def a_crash_repeats_little(facts: Facts) -> Found:
    for (name, id), attempts in facts.attempts_of.items():
        if len(facts.copies.get(id, ())) != 1 or facts.to.get(id) != "default":
            continue
        for before, after in pairwise(attempts):
            life = facts.lives.get(before.generation)
            if before.generation == after.generation or life is None:
                continue
            acked = before.took and heard(facts, name, before) and not _reloading(facts, before)
            if not acked or facts.changing(before.at, life.end):
                continue
            slack = 0.0 if life.how == "stop" else 0.4 + facts.lag
            if facts.ran(before.answered, life.end) < slack or facts.faults(DISK, before.answered - 2, life.end):
                continue
            if facts.faults((*SYNCS, "memory"), life.begin, life.end):
                continue
            if facts.faults(("disk-lies",), before.answered - 2, after.at):
                continue
            if life.how == "power" and any(c.sync != "full" for c in facts.configs(life.begin, life.end)):
                continue
            yield after.at, f"{name} got {id} again, taken {life.end - before.answered:.2f} s before the {life.how}"


@promise("delivery", "each event still gets `retry` + 1 tries with the waits of its policy in between")
def nobody_is_tried_too_often(facts: Facts) -> Found:
    for (name, id), attempts in facts.attempts_of.items():
        copies = len(possible(facts, id))
        for life in facts.lives.values():
            mine = [a for a in attempts if a.generation == life.generation]
            if not mine or name in facts.from_kafka:
                continue
            policies = facts.policies(name, life.begin, life.end)
            runs = 1 + sum(life.begin <= a <= life.end for a, _ in facts.reloads)
            most = (max((p.retry for p in policies), default=0) + 1) * copies * runs
            if len(mine) > most:
                yield mine[most].at, f"{name} got {id} {len(mine)} times; its policy allows {most}"


@promise("delivery", "or silence for more than `timeout_s` seconds.")
def an_attempt_has_its_time(facts: Facts) -> Found:
    for (name, id), attempts in facts.attempts_of.items():
        if len(possible(facts, id)) != 1 or facts.to.get(id) != "default":
            continue
        for before, after in pairwise(attempts):
            if before.generation != after.generation or before.status is not None:
                continue
            if before.replied is None or before.replied.how not in ("silent", "hang", "gone"):
                continue
            if any(s.kind == "silent" and before.at <= s.end <= after.at for s in facts.spans):
                continue  # then the server ends the connection
            if facts.changing(before.at, after.at) or before.arrived.connection < 0:
                continue
            kinds = ("refuse", "vanish", "stall", "cut-answer", "cut-request", "close", "freeze", "garbage", "more")
            if facts.faults(kinds, before.at - 130, after.at):
                continue
            limit = min((p.timeout_s for p in facts.policies(name)), default=0.0)
            if after.at - before.at < limit - facts.lag - 0.1:
                yield after.at, f"{name} got {id} again after {after.at - before.at:.2f} s, not after {limit} s"


@promise("delivery", "Per trigger, `max_in_flight` limits the attempts [in flight](../reference/glossary.md#in-flight)")
def no_more_in_flight_than_allowed(facts: Facts) -> Found:
    for name in (*facts.names, *facts.bridges):
        most = max((p.max_in_flight for p in facts.policies(name)), default=EVER)
        flying: list[Attempt] = []
        for attempt in facts.by_server.get(name, ()):
            flying = [
                a for a in flying if certain_end(facts, name, a) > attempt.at and a.generation == attempt.generation
            ]
            if facts.changing(attempt.at - 60, attempt.at) or attempt.status is None:
                continue
            if not facts.calm(name, attempt.at, min(attempt.answered, attempt.at + 40)):
                continue
            flying.append(attempt)
            if len(flying) > most:
                yield attempt.at, f"{name} has {len(flying)} attempts in flight, not {most}"
                break


@promise("delivery", "and `rate_per_s` how many start in a second.")
def no_more_in_a_second_than_allowed(facts: Facts) -> Found:
    for name in (*facts.names, *facts.bridges):
        rates = [p.rate_per_s for p in facts.policies(name)]
        if not rates or None in rates:
            continue
        rate = max(r for r in rates if r is not None)
        times = [a.at for a in facts.by_server.get(name, ())]
        for window in (1.0, 5.0):
            most = max(1.0, rate / 10) + rate * (window + facts.lag) + 1
            for first, at in enumerate(times):
                last = first + int(most)
                if last >= len(times) or times[last] > at + window:
                    continue
                if facts.changing(at - 60, times[last]) or not facts.calm(name, at - 60, times[last]):
                    continue
                yield times[last], f"{name} got {int(most) + 1} attempts in {window:g} s; its rate is {rate:g} a second"
                break


@promise("delivery", "**Every request that leaves the gateway is an attempt**: it is counted, spaced and limited")
def a_server_that_announces_its_end_is_not_used(facts: Facts) -> Found:
    for server, attempts in facts.by_server.items():
        last: dict[int, Attempt] = {}
        for attempt in attempts:
            connection = attempt.arrived.connection
            before = last.get(connection)
            last[connection] = attempt
            if before is None or connection < 0:
                continue
            if before.replied is not None and before.replied.how == "announced" and before.status is not None:
                yield attempt.at, f"{server} got {attempt.id} on a connection that it had announced to close"


@promise("delivery", "── 1xx, 3xx, 400, other 4xx ──")
def a_rejection_is_final(facts: Facts) -> Found:
    for (name, id), attempts in facts.attempts_of.items():
        if len(possible(facts, id)) != 1:
            continue
        for before, after in pairwise(attempts):
            if before.generation != after.generation or facts.changing(before.at - 60, after.at):
                continue
            if before.status is None or before.took or retried(before.status) or not heard(facts, name, before):
                continue
            if facts.to.get(id) == "default":
                yield after.at, f"{name} got {id} again, though it had answered {before.status}"


@promise("delivery", "── 404, 408, 409, 429, 5xx, others, no answer ─▶ retries left? ─ no ─▶ dead letter")
def an_event_has_all_its_tries(facts: Facts) -> Found:
    for name, id, letter, write in facts.letters_by_attempt():
        if letter.get("tidegatestage") != "delivery" or name in facts.bridges:
            continue
        tries, code = int(letter["tidegateattempts"]), letter.get("knativeerrorcode")
        at = write.at if write is not None else EVER
        policies = facts.policies(name, 0, at)
        if not policies:
            continue
        if code is None or retried(int(code)):
            # what a plugin's sink says is not seen from outside
            if any(t is not None and t.sink != "http" for t in facts.triggers(name, 0, at)):
                continue
            if not any(tries == p.retry + 1 or (p.retry_for is not None and tries <= p.retry) for p in policies):
                yield at, f"{name} gave {id} up after {tries} tries ({letter.get('tidegatereason')})"
        elif tries > max(p.retry for p in policies) + 1:
            yield at, f"{name} gave {id} up after {tries} tries"


@promise("delivery", "`tidegateattempts` in a dead letter counts these, too")
def a_dead_letter_counts_the_tries(facts: Facts) -> Found:
    for name, id, letter, write in facts.letters_by_attempt():
        if len(possible(facts, id)) != 1 or name in facts.bridges:
            continue
        at = write.at if write is not None else EVER
        generation = write.generation if write is not None else max(facts.lives, default=0)
        if write is None and len(facts.lives) > 1:
            continue
        seen = [a for a in facts.attempts_of.get((name, id), ()) if a.at < at and a.generation == generation]
        if facts.changing(seen[0].at - 60 if seen else at, at):
            continue
        if len(seen) > int(letter["tidegateattempts"]):
            yield at, f"the dead letter of {id} says {letter['tidegateattempts']} attempts; {name} saw {len(seen)}"


@promise(
    "delivery", "written to the [dead letter](../reference/glossary.md#dead-letter) together with the facts of its"
)
def a_dead_letter_says_what_was_answered(facts: Facts) -> Found:
    for name, id, letter, write in facts.letters_by_attempt():
        if write is None or len(possible(facts, id)) != 1 or letter.get("tidegatestage") != "delivery":
            continue
        seen = [
            a for a in facts.attempts_of.get((name, id), ()) if a.at < write.at and a.generation == write.generation
        ]
        if not seen or not heard(facts, name, seen[-1]) or facts.changing(seen[-1].at - 60, write.at):
            continue
        if facts.refused.get(name) or facts.partial.get(name):
            continue  # later attempts may not have reached the server
        if not facts.calm(name, seen[-1].at, write.at):
            continue
        code = letter.get("knativeerrorcode")
        if code != str(seen[-1].status):
            yield write.at, f"the dead letter of {id} says {code}, the subscriber {name} said {seen[-1].status}"
