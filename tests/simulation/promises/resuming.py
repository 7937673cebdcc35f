"""Promises that trouble ends: a wait has a ceiling, an answer ends an outage, and what only seems to be a failure of
the subscriber costs no event a try."""

from __future__ import annotations

from ..choices import KINDS, SERVER
from ..facts import DISK, EVER, LIKE_AN_ANSWER, STOPS, Facts, Life
from ..history import Quiet
from .accepting import possible, retried, stored, wanted_by
from .attempting import heard
from .registry import Found, promise
from .waiting import MOST_OUTAGE_S, ceiling_s

LATE_S = 3.0
"""A sweep of time limits ends an attempt up to a second late; and the rest of the world needs time, too."""
LONGEST_LETTER_S = 40.0
"""A dead letter that failed is written again after 30 s at most, and blocks its trigger until then."""


def longest_wait_s(facts: Facts, name: str) -> float:
    """The longest ceiling of the trigger's policies."""
    return max((ceiling_s(p, p.retry) for p in facts.policies(name) if p.retry), default=0.0)


def plain_triggers(facts: Facts, *, ordered: bool) -> list[str]:
    """Triggers over HTTP whose events wait for nothing but their retries (and their order, if `ordered`)."""
    found = []
    for name in facts.names:
        triggers = facts.triggers(name, 0.0, EVER)
        kept = [t for t in triggers if t is not None]
        if len(kept) < len(triggers) or any(t.sink != "http" or t.policy.rate_per_s for t in kept):
            continue
        if any(t.filter.kind == "simulated" or t.mapper for t in kept):
            continue
        if ordered or all(t.policy.order == "unordered" for t in kept):
            found.append(name)
    return found


def free(facts: Facts, name: str, begin: float, end: float) -> bool:
    """Whether the gateway may make attempts all the time: it runs, nobody paused or reloaded it, no dead letter blocks
    the trigger, its machine has what it needs, and nobody asked it to wait."""
    life = facts.life(begin)
    if life is None or life.begin > begin - facts.lag or life.end < end + facts.lag:
        return False
    if facts.changing(begin - 60, end) or facts.paused(name, begin, end):
        return False
    before = begin - LONGEST_LETTER_S
    for span in facts.spans:
        if span.begin > end or span.end < before:
            continue
        if span.kind in (*DISK, *STOPS, "freeze", "clock", "short", "memory"):
            return False
        if span.target in ("dead", f"dead-{name}") or (span.target == name and span.kind == "retry-after"):
            return False
    return True


def pending(facts: Facts, name: str) -> list[tuple[str, float, float]]:
    """The events that the trigger wants for certain: id, when the sender knew, when they were settled."""
    found = []
    for id, begin, end in stored(facts):
        if end == EVER or id not in facts.order_of_acceptance or (name, id) in facts.letters_of:
            continue
        if name in wanted_by(facts, facts.events[id], begin, end):
            found.append((id, end, facts.settled_at(name, id)))
    return found


@promise("delivery", "everything that is due goes out, and everything else follows after its own wait")
def an_answer_sets_everything_going(facts: Facts) -> Found:
    """What was accepted before an answer is attempted within the longest wait of the policy, and a moment for each
    event that may have its turn before."""
    quiet = max((q.at for q in facts.history.of(Quiet)), default=0.0)
    for name in plain_triggers(facts, ordered=False):
        limit = max((p.timeout_s for p in facts.policies(name)), default=0.0)
        waiting = pending(facts, name)
        bound = limit + longest_wait_s(facts, name) + facts.lag * (2 * len(waiting) + 10) + LATE_S
        last = -EVER
        for attempt in facts.by_server.get(name, ()):
            if attempt.status is None or attempt.at < last + 2.0 or not heard(facts, name, attempt):
                continue
            last, end = attempt.at, attempt.at + bound
            if end > quiet or not free(facts, name, attempt.at, end) or not facts.calm(name, attempt.at, end):
                continue
            if facts.faults(("hang",), attempt.at - limit, end, name):
                continue
            for id, accepted, settled in waiting:
                if accepted > attempt.at or settled <= end:
                    continue
                if any(attempt.at - facts.lag <= a.at <= end for a in facts.attempts_of.get((name, id), ())):
                    continue
                yield end, f"{name} answered at {attempt.at:.2f} s, but {id} had no attempt in {bound:.1f} s after that"
                return


@promise("delivery", "the waits between them grow as above, up to 5 s")
def an_outage_is_probed(facts: Facts) -> Found:
    quiet = max((q.at for q in facts.history.of(Quiet)), default=0.0)
    for name in plain_triggers(facts, ordered=True):
        waiting = pending(facts, name)
        bound = max(MOST_OUTAGE_S, longest_wait_s(facts, name)) + facts.lag + LATE_S
        times = sorted([*facts.refused.get(name, ()), *facts.partial.get(name, ()), *facts.times.get(name, ())])
        refused = set(facts.refused.get(name, ()))
        for number, at in enumerate(times):
            end = at + bound
            if at not in refused:
                continue
            if end > quiet or (number + 1 < len(times) and times[number + 1] <= end):
                continue
            if not free(facts, name, at, end) or _disturbed(facts, name, at - facts.lag, end, ("refuse",)):
                continue
            if facts.faults(("hang",), at - LONGEST_LETTER_S, end, name):
                continue
            if any(accepted < at and settled > end for _, accepted, settled in waiting):
                yield end, f"{name} got no attempt for {bound:.1f} s after {at:.2f} s, though events wait for it"
                return


def _disturbed(facts: Facts, name: str, begin: float, end: float, but: tuple[str, ...]) -> bool:
    """Whether the server's network was disturbed by anything but these kinds."""
    return any(
        s.target == name
        and KINDS[s.kind].target == SERVER
        and s.kind not in (*but, *LIKE_AN_ANSWER)
        and s.begin <= end
        and s.end >= begin
        for s in facts.spans
    )


@promise("delivery", "or silence for more than `timeout_s` seconds.")
def silence_has_a_limit(facts: Facts) -> Found:
    """An event whose attempt gets no answer is attempted again, or given up, soon after its time limit."""
    quiet = max((q.at for q in facts.history.of(Quiet)), default=0.0)
    for name in plain_triggers(facts, ordered=True):
        if len({s.amount for s in facts.spans if s.kind == "hang" and s.target == name}) > 1:
            continue  # then an attempt of one may stand for the other
        limit = max((p.timeout_s for p in facts.policies(name)), default=0.0)
        count = len(facts.events)
        bound = limit + max(MOST_OUTAGE_S, longest_wait_s(facts, name)) + facts.lag * (2 * count + 10) + LATE_S
        for (server, id), attempts in facts.attempts_of.items():
            if server != name or (name, id) in facts.letters_of or id not in facts.order_of_acceptance:
                continue
            writes = [w.at for w in facts.dead_of.get((name, id), ())]
            for number, attempt in enumerate(attempts):
                if attempt.replied is None or attempt.replied.how != "hang":
                    continue
                end = attempt.at + bound
                again = [a.at for a in attempts[number + 1 :]] + writes
                if end > quiet or any(attempt.at < at <= end for at in again):
                    continue
                if free(facts, name, attempt.at - facts.lag, end) and facts.calm(name, attempt.at - limit, end):
                    yield end, f"{name} did not answer to {id} at {attempt.at:.2f} s, and nothing came of it"
                    return


@promise("delivery", "So if one event makes a subscriber hang, only that event is given up.")
def nobody_is_given_up_without_a_failure(facts: Facts) -> Found:
    """No event goes to the dead letter for lack of an answer while its subscriber answers, whatever happens to others
    and whatever the gateway's machine is short of."""
    for name, id, letter, write in facts.letters_by_attempt():
        if letter.get("tidegatestage") != "delivery" or "knativeerrorcode" in letter or name not in facts.names:
            continue
        at = write.at if write is not None else EVER
        found = facts.triggers(name, 0.0, at)
        if facts.faults(("freeze",), 0.0, at) or name in facts.topics:  # a topic may refuse what it likes
            continue
        if any(t is not None and t.sink != "http" for t in found) and facts.faults(("sink",), 0.0, at, name):
            continue
        hanging = {s.amount for s in facts.spans if s.kind == "hang" and s.target == name and s.begin <= at}
        own = len(hanging) > 1 or any(id.partition(".")[0] == f"e{number}" for number in hanging)
        limit = min((p.timeout_s for p in facts.policies(name)), default=0.0)
        if own or limit < 2 * facts.lag or _disturbed(facts, name, 0.0, at, ()):
            continue
        yield min(at, facts.end), f"{id} was given up for {name}, which answered: {letter.get('tidegatereason')}"


@promise("delivery", "counts along only if the one before it is not the only event")
def only_own_tries_count_while_one_event_hangs(facts: Facts) -> Found:
    """What waits behind an event that gets no answer keeps all its tries, if that is the only one without an answer."""
    for name, id, letter, write in facts.letters_by_attempt():
        code = letter.get("knativeerrorcode")
        if write is None or code is None or not retried(int(code)) or letter.get("tidegatestage") != "delivery":
            continue
        found = facts.triggers(name, 0.0, write.at)
        if name not in facts.names or any(t is not None and t.sink != "http" for t in found):
            continue
        hanging = {s.amount for s in facts.spans if s.kind == "hang" and s.target == name and s.begin <= write.at}
        limit = min((p.timeout_s for p in facts.policies(name)), default=0.0)
        if len(hanging) > 1 or limit < 2 * facts.lag or len(possible(facts, id)) != 1:
            continue
        if _disturbed(facts, name, 0.0, write.at, ()) or facts.faults(("freeze",), 0.0, write.at):
            continue
        seen = [a for a in facts.attempts_of.get((name, id), ()) if a.at < write.at]
        begin = seen[0].at if seen else write.at
        if any(a.generation != write.generation for a in seen) or facts.changing(begin - 60, write.at):
            continue
        if len(seen) < int(letter["tidegateattempts"]):
            yield (
                write.at,
                f"the dead letter of {id} says {letter['tidegateattempts']} attempts; {name} saw {len(seen)}",
            )


@promise("delivery", "the gateway trusts nothing the disk reports until a restart has read what is there")
def nothing_is_accepted_after_a_failed_sync(facts: Facts) -> Found:
    for at in facts.failed_syncs:
        life = facts.life(at)
        for id, copies in facts.copies.items():
            for copy in copies:
                if not copy.stored or facts.to[id] != "default" or life is None:
                    continue
                if at < copy.begin and copy.end <= life.end:
                    yield copy.end, f"{id} was accepted after a sync had failed at {at:.2f} s"
                    return


@promise("delivery", "A stop by SIGTERM writes the cursors last and repeats nothing, except")
def a_stop_repeats_nothing(facts: Facts) -> Found:
    for (name, id), attempts in facts.attempts_of.items():
        if len(facts.copies.get(id, ())) != 1 or facts.to.get(id) != "default":
            continue
        for number, attempt in enumerate(attempts):
            life = facts.lives.get(attempt.generation)
            if not attempt.took or life is None or life.how != "stop" or attempt.arrived.number not in facts.read:
                continue
            read = facts.read[attempt.arrived.number]
            if read > _cut_off(facts, life) or _reload_repeats(facts, name, attempt.at, read, life):
                continue
            if facts.faults((*DISK, "memory"), life.begin - 60, life.end) or facts.lies:
                continue
            after = [a for a in attempts[number + 1 :] if a.at > life.end + facts.lag]
            later = [a for a in after if a.arrived.generation > life.generation]  # what was sent before may arrive late
            if later:
                yield later[0].at, f"{name} got {id} again, whose 2xx the gateway had read before it stopped"


def _reload_repeats(facts: Facts, name: str, begin: float, read: float, life: Life) -> bool:
    """Whether a reload may have cut off this attempt, since it had no answer yet, or forgot the trigger's cursor."""
    until = min(EVER, life.end)
    if facts.changing(begin - 60, until) and None in facts.triggers(name, begin - 60, until + 60):
        return True
    drain_s = min(config.drain_timeout_s for config in facts.configs(begin - 60, until))
    return any(a - facts.lag <= read and b + facts.lag >= begin and read > a + drain_s for a, b in facts.reloads)


def _cut_off(facts: Facts, life: Life) -> float:
    """When a stop cut off the attempts that had no answer yet."""
    drain_s = min(config.drain_timeout_s for config in facts.configs(life.begin, life.end))
    asked = (s.begin for s in facts.spans if s.kind == "restart" and life.begin <= s.begin <= life.end)
    return min(life.end, min(asked, default=life.end) + drain_s)
