"""Promises about time: the waits before retries, `Retry-After`, outages, and that nothing waits too long."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from ..facts import DISK, EVER, Attempt, Facts
from ..plan import Policy
from .accepting import lost_with_power, possible, retried, stored, wanted_by
from .attempting import certain_end, heard
from .registry import Found, promise

GRACE_S = 60.0
"""A sink without an outcome is given up this long after its time limit, at most."""
MOST_OUTAGE_S = 5.0


def ceiling_s(policy: Policy, retry: int) -> float:
    """The longest wait before a retry (delivery.md, written down again)."""
    factor = 2.0 ** min(retry - 1, 60) if policy.backoff == "exponential" else float(retry)
    return min(policy.backoff_max_s, policy.backoff_delay_s * factor)


@promise("delivery", "and the wait is drawn uniformly from its upper half")
def waits_are_no_shorter_than_the_policy_says(facts: Facts) -> Found:
    for (name, id), attempts in facts.attempts_of.items():
        policies = facts.policies(name)
        if len(possible(facts, id)) != 1 or len(attempts) < 2 or not policies or facts.to.get(id) != "default":
            continue
        number = 0
        for before, after in pairwise(attempts):
            number = number + 1 if before.generation == after.generation else 0
            if number == 0 or facts.changing(before.at - 60, after.at):
                number = 0
                continue
            if before.arrived.connection < 0 or facts.faults(("vanish", "stall", "freeze"), before.at - 60, after.at):
                continue
            least = min(ceiling_s(p, number) for p in policies) / 2
            limit = min(p.timeout_s for p in policies)
            begin = before.at - facts.lag  # it may fail as soon as it began, before its request arrives
            end = max(begin, min(before.answered, begin + limit - 0.1)) if heard(facts, name, before) else begin
            if after.at - end < least - 0.001:
                yield after.at, f"{name} got {id} again {after.at - end:.3f} s later; retry {number} waits {least:g} s"


@promise("delivery", "The gateway honours `Retry-After` on 429 and 503, up to `retry_after_max_s`.")
def retry_after_is_honoured(facts: Facts) -> Found:
    for name in (*facts.names, *facts.bridges):
        for attempt in facts.by_server.get(name, ()):
            if attempt.replied is None or attempt.replied.how != "retry-after" or not heard(facts, name, attempt):
                continue
            asked = _asked(facts, name, attempt)
            begin, end = attempt.answered + facts.lag, attempt.answered + asked
            if facts.changing(attempt.at - 60, end):
                continue
            for after in facts.between(name, begin, end - facts.lag):
                if after.generation == attempt.generation:
                    yield after.at, f"{name} got {after.id} at {after.at:.2f} s; it asked for none before {end:.2f} s"
                    break


def _asked(facts: Facts, name: str, attempt: Attempt) -> float:
    amounts = [
        s.amount
        for s in facts.spans
        if s.kind == "retry-after" and s.target == name and s.begin <= attempt.answered <= s.end + facts.lag
    ]
    return min(min(amounts, default=0), min(p.retry_after_max_s for p in facts.policies(name)))


@promise("delivery", "it makes one attempt at a time, each with the next event in turn")
def an_outage_has_few_attempts(facts: Facts) -> Found:
    for name in (*facts.names, *facts.bridges):
        policies = facts.policies(name)
        least = min((min(ceiling_s(p, 1), MOST_OUTAGE_S) for p in policies), default=0.0) / 2
        times = facts.refused.get(name, [])
        if not times or least <= 0:
            continue
        row: list[float] = []
        for at in times:
            if row and not _still_down(facts, name, row[-1], at):
                row = []
            row.append(at)
            # what had begun before the fifth failure was known may follow it
            if len(row) > 5 and row[-2] > row[4] + 2 * facts.lag and at - row[-2] < least - facts.lag:
                yield at, f"{name} is down, but got attempts at {row[-2]:.3f} s and {at:.3f} s"
                break


def _still_down(facts: Facts, name: str, begin: float, end: float) -> bool:
    """Whether no other attempt was made meanwhile, and the gateway had no reason to start again."""
    life = facts.life(begin)
    if life is None or end > life.end or facts.changing(begin - 60, end):
        return False
    if facts.partial.get(name) and any(begin <= at <= end for at in facts.partial[name]):
        return False
    if facts.faults(("vanish", "freeze"), begin, end):
        return False
    return not facts.between(name, begin - facts.lag, end + facts.lag)


@promise("delivery", "so no event is given up sooner than it would be alone")
def nobody_is_given_up_early(facts: Facts) -> Found:
    for one in _given_up_after_failures(facts):
        least = min(sum(ceiling_s(p, n) for n in range(1, one.tries)) for p in one.policies) / 2
        if one.took < least - 0.01:
            yield (
                one.at,
                f"{one.name} gave {one.id} up after {one.took:.2f} s and {one.tries} tries; its waits alone take"
                f" {least:.2f} s",
            )


class _GivenUp(NamedTuple):
    """A dead letter of an event that was given up after failures that are tried again: by whom, when it was written,
    for how long and how often it was tried, and the policies that may have been in force."""

    name: str
    id: str
    at: float
    code: str | None
    took: float
    tries: int
    policies: list[Policy]


def _given_up_after_failures(facts: Facts) -> Iterator[_GivenUp]:
    """None while clocks can't be trusted."""
    if any(s.kind in ("clock", "freeze") for s in facts.spans):
        return
    for name, id, letter, write in facts.letters_by_attempt():
        code = letter.get("knativeerrorcode")
        if letter.get("tidegatestage") != "delivery" or (code is not None and not retried(int(code))):
            continue
        took = seconds(letter["tidegatelast"]) - seconds(letter["tidegatefirst"])
        at = write.at if write is not None else facts.end
        if policies := facts.policies(name):
            yield _GivenUp(name, id, at, code, took, int(letter["tidegateattempts"]), policies)


def seconds(text: str) -> float:
    """An RFC 3339 time in UTC as Unix time."""
    return datetime.fromisoformat(text).timestamp()


@promise("delivery", "any answer, even a rejection, ends it: everything that is due goes out")
def nothing_waits_too_long(facts: Facts) -> Found:
    """Once the faults are over, each event is settled within what its policy, the limits and the order allow."""
    well = max([facts.plan.seconds, *(s.end for s in facts.spans if s.end < EVER)])
    for id, begin, end in stored(facts):
        if lost_with_power(facts, begin):
            continue
        for name in wanted_by(facts, facts.events[id], begin, min(end, facts.end)):
            at = facts.settled_at(name, id)
            if at == EVER:  # in a file, or never: `every_accepted_event_is_settled`
                continue
            from_ = max(well, begin, end if end < EVER else begin)
            if at > from_ + _most_wait(facts, name):
                yield at, f"{name} settled {id} {at - from_:.0f} s after all faults were over"


def _most_wait(facts: Facts, name: str) -> float:
    """How long an event may take at most, all being well: its wait, what it waits for, and its own turn."""
    policies = facts.policies(name)
    waits = max(max(p.backoff_max_s, p.retry_after_max_s, p.timeout_s) for p in policies)
    waits += 30.0 + GRACE_S + MOST_OUTAGE_S  # a dead letter's wait, a sink that says nothing, a probe
    waits += max((c.kafka.session_timeout_s + 30.0 for c in facts.plan.configs if c.kafka is not None), default=0.0)
    turn = max(1.0 / p.rate_per_s if p.rate_per_s else 0.0 for p in policies) + facts.lag
    return waits + turn * (len(facts.events) + 10) + 10.0


@promise("delivery", "A slow subscriber delays nobody else.")
def a_slow_subscriber_delays_nobody_else(facts: Facts) -> Found:
    """An event that is accepted while its own subscriber is well, and everything else around it too, comes soon."""
    for id, begin, end in stored(facts):
        if end == EVER or facts.order_of_acceptance.get(id) is None or lost_with_power(facts, begin):
            continue
        for name in wanted_by(facts, facts.events[id], begin, end):
            policies = facts.policies(name)
            if any(p.order != "unordered" or p.rate_per_s or p.max_in_flight < 16 for p in policies):
                continue
            if any(s.target == name and s.begin < end + 3 for s in facts.spans) or _dead_fails(facts, name, end):
                continue
            if facts.changing(begin - 60, end + 3):
                continue
            if facts.faults((*DISK, "freeze", "clock", "short", "memory"), 0, end + 3):
                continue
            if any(t is not None and t.sink != "http" for t in facts.triggers(name, 0, EVER)):
                continue
            life = facts.life(begin)
            if life is None or life.begin > begin or life.end < end + 3 or end + 3 > facts.end:
                continue
            if any(s.kind.startswith("kafka-") and s.begin < end + 3 for s in facts.spans):
                continue
            if any(s.kind in ("crash", "power", "restart") and s.begin < end + 3 for s in facts.spans):
                continue
            found = facts.attempts_of.get((name, id))
            if found is None or found[0].at > end + 2 + facts.lag:
                yield end, f"{name} is well, but {id} did not come within 2 s"


def _dead_fails(facts: Facts, name: str, until: float) -> bool:
    servers = {f"dead-{name}", "dead"}
    return any(s.target in servers and s.begin < until + 3 for s in facts.spans)


@promise("delivery", "While a subscriber fails, fewer attempts are in flight at once.")
def the_window_closes(facts: Facts) -> Found:
    for name in facts.names:
        policies = facts.policies(name)
        if not policies or min(p.max_in_flight for p in policies) < 16:
            continue
        half = max(p.max_in_flight for p in policies) // 2
        attempts = [a for a in facts.by_server.get(name, ()) if a.arrived.connection >= 0]
        failures: list[Attempt] = []
        for attempt in attempts:
            if attempt.took or attempt.status is None or not heard(facts, name, attempt):
                failures = []
                continue
            if failures and attempt.generation != failures[-1].generation:
                failures = []
            failures.append(attempt)
            if facts.changing(failures[0].at - 60, attempt.at):
                continue
            if not _known_twice(failures, attempt.at - facts.lag):
                continue
            # each has left the gateway when it arrives, and is in flight until its answer is read
            sent = attempt.at - facts.plan.network.latency_s
            begun = attempts[: bisect_right(attempts, attempt.at, key=lambda a: a.at)]
            flying = [
                a
                for a in begun
                if a.generation == attempt.generation
                and sent < (facts.read.get(a.arrived.number) or certain_end(facts, name, a))
            ]
            if len(flying) > half:
                yield attempt.at, f"{name} fails, but {len(flying)} attempts are in flight"
                break


def _known_twice(failures: list[Attempt], before: float) -> bool:
    """Whether failures that are tried again were known at two moments before this one."""
    moments: set[int] = set()
    for failure in failures:
        if failure.answered < before and retried(failure.status or 0):
            moments.add(int(failure.answered / 0.2))
            if len(moments) == 2:
                return True
    return False


@promise("delivery", "is given up no sooner than after it")
def nobody_is_given_up_before_its_time(facts: Facts) -> Found:
    for one in _given_up_after_failures(facts):
        if any(p.retry_for is None or one.tries > p.retry for p in one.policies):
            continue
        if one.code is None and any(t is not None and t.sink != "http" for t in facts.triggers(one.name, 0, EVER)):
            continue  # what was refused for good looks like no answer
        least = min(p.retry_for for p in one.policies if p.retry_for is not None)
        if one.took < least - 0.01:
            yield one.at, f"{one.name} gave {one.id} up after {one.took:.2f} s; its policy retries for {least:g} s"


@promise("delivery", "or more after the event's first failed attempt is the last")
def nobody_is_tried_after_its_time(facts: Facts) -> Found:
    for (name, id), attempts in facts.attempts_of.items():
        limits = [p.retry_for for p in facts.policies(name)]
        if not limits or None in limits or len(possible(facts, id)) != 1 or name in facts.from_kafka:
            continue
        most = max(limit for limit in limits if limit is not None)
        for life in facts.lives.values():
            failed: Attempt | None = None  # its first failure for certain
            over = EVER
            for attempt in (a for a in attempts if a.generation == life.generation):
                if attempt.at > over and not facts.changing(life.begin, attempt.at):
                    yield attempt.at, f"{name} got {id} again, though its time was over at {over:.2f} s"
                    break
                if attempt.took or attempt.status is None or not heard(facts, name, attempt):
                    continue
                failed = failed or attempt
                took = attempt.answered - facts.lag - failed.answered if attempt is not failed else 0.0
                if took >= most:
                    over = min(over, attempt.answered + facts.lag)
