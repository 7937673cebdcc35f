"""Promises about what the gateway says of itself: status, conditions, its log, and that it comes to rest."""

from __future__ import annotations

from typing import Any

from ..facts import DISK, EVER, SYNCS, Facts
from ..history import Broken, Logged, Quiet, StartFailed, Status
from ..kafka_facts import channel, channel_troubled
from .accepting import possible
from .attempting import heard
from .registry import Found, promise


@promise("delivery", "No accepted event is dropped.**")
def the_gateway_comes_to_rest(facts: Facts) -> Found:
    for quiet in facts.history.of(Quiet):
        if not quiet.quiet:
            yield quiet.at, f"the gateway does not come to rest: {quiet.why}"


@promise("delivery", "the log names it, and everything else continues.")
def nothing_breaks(facts: Facts) -> Found:
    for broken in facts.history.of(Broken):
        yield broken.at, broken.what
    for line in facts.logged:
        if line.error and not facts.faults(("memory",), line.at, line.at):
            yield line.at, f"a traceback in the log: {line.text}: {line.error.strip().splitlines()[-1]}"


@promise("delivery", "senders get 503 and keep their events; deliveries continue, even after a restart")
def the_gateway_starts(facts: Facts) -> Found:
    for failed in facts.history.of(StartFailed):
        if facts.faults(DISK - {"disk-slow", "disk-full"}, failed.at - 5, failed.at):
            continue
        if facts.faults(("memory",), failed.at - 5, failed.at):
            continue
        if any(power <= failed.at for *_, power in facts.lies) and "`tidegate log repair" in failed.error:
            continue  # it says clearly what is damaged, and what to do
        if "Kafka" in failed.error and channel_troubled(facts):
            continue
        if "signal 9" in failed.error and facts.faults(("worker-crash",), failed.at - 5, failed.at):
            continue  # the first worker was killed before it had started for the first time
        full = "the disk seems to be full: free some space" in failed.error
        if full and not any(life.begin < failed.at for life in facts.lives.values()):
            continue  # the first start has no reserve yet
        # when the disk fills up, or seems to, the gateway gives its reserve away; another program may take that, too
        kinds = ("disk-full", "disk-error")
        fills = [s for s in facts.spans if s.kind in kinds and failed.at - 60 <= s.begin <= failed.at]
        if len(fills) < 2 or not full:
            yield failed.at, f"a start failed: {failed.error}"


def of_trigger(status: Status, name: str) -> dict[str, Any] | None:
    """A trigger's part of a status document."""
    return next((t for t in status.document.get("triggers", ()) if t["name"] == name), None)


@promise("delivery", "it is counted, spaced and limited, and has its own outcome.")
def every_attempt_is_counted(facts: Facts) -> Found:
    for status in facts.statuses:
        life = facts.lives.get(status.generation)
        if life is None or any(life.begin <= a <= status.at for a, _ in facts.reloads):
            continue
        for name in facts.names:
            told = of_trigger(status, name)
            if told is None:
                continue
            seen = [a for a in facts.by_server.get(name, ()) if a.generation == status.generation]
            seen = [a for a in seen if a.at < status.at - facts.lag and a.id in facts.events]
            if told["attempts"] < len(seen):
                yield status.at, f"{name} got {len(seen)} attempts; its status counts {told['attempts']}"
            given_up = sum(told["dead_lettered_by_stage"].get(s, 0) for s in ("delivery", "encode"))
            least = told["delivered"] + told["retried"]
            flying = told["in_flight"] + told["waiting"]
            withdrawn = channel_troubled(facts)  # by a partition that has moved: not counted
            if not least <= told["attempts"] or (not withdrawn and told["attempts"] > least + given_up + flying):
                yield (
                    status.at,
                    (
                        f"counts of {name} don't add up: {told['attempts']} attempts, {told['delivered']} delivered,"
                        f" {told['retried']} retried, {given_up} given up, {flying} held"
                    ),
                )
            took = [a for a in seen if a.took and heard(facts, name, a)]
            if told["delivered"] < len({a.arrived.number for a in took}):
                yield status.at, f"{name} took {len(took)} events; its status says {told['delivered']}"
            found = facts.by_server.get(name, ())
            all_took = [a for a in found if (a.generation < 0 or a.generation == status.generation) and a.took]
            if told["delivered"] > len(all_took):
                yield status.at, f"{name} took {len(all_took)} events; its status says {told['delivered']}"


@promise("delivery", "and how many events wait")
def at_rest_nothing_is_held(facts: Facts) -> Found:
    if not facts.statuses or not any(q.quiet for q in facts.history.of(Quiet)):
        return
    last = facts.statuses[-1]
    for told in (*last.document.get("triggers", ()), *last.document.get("bridges", ())):
        held = {n: told.get(n) for n in ("in_flight", "waiting", "lag") if told.get(n)}
        if held:
            yield last.at, f"{told['name']} holds events after all are settled: {held}"


@promise("delivery", "The gateway sends the 202 when the event is on disk (`sync: full`)")
def accepted_events_are_counted(facts: Facts) -> Found:
    for status in facts.statuses:
        life = facts.lives.get(status.generation)
        if life is None or any(life.begin <= a <= status.at for a, _ in facts.reloads):
            continue
        for told in status.document.get("brokers", ()):
            if told["name"] != "default":
                continue
            if facts.plan.configs[0].readers or facts.plan.configs[0].queues or channel(facts.plan.configs):
                continue
            copies = [
                c
                for id, found in facts.copies.items()
                if facts.to[id] == "default"
                for c in found
                if life.begin - facts.lag <= c.begin <= status.at and c.end >= life.begin
            ]
            sure = [c for c in copies if c.stored and c.end <= status.at and c.begin >= life.begin]
            most = [c for c in copies if c.stored is not False]
            if not len(sure) <= told["accepted"] <= len(most):
                yield status.at, f"{len(sure)} to {len(most)} events were accepted; the status says {told['accepted']}"


@promise("delivery", "and one when it accepts events again.")
def conditions_are_true(facts: Facts) -> Found:
    if not facts.statuses or not any(q.quiet for q in facts.history.of(Quiet)):
        return
    last = facts.statuses[-1]
    for told in last.document.get("triggers", ()):
        name = told["name"]
        attempts = [a for a in facts.by_server.get(name, ()) if a.generation == last.generation]
        longest = max((p.timeout_s for p in facts.policies(name)), default=0.0)
        silent = [a.at + longest + facts.lag for a in attempts[:-1] if a.status is None]  # each fails until then
        failed = max([*facts.refused.get(name, []), *facts.partial.get(name, []), *silent], default=0.0)
        well = bool(attempts) and attempts[-1].took and heard(facts, name, attempts[-1]) and failed < attempts[-1].at
        never = not attempts and failed < (facts.lives[last.generation].begin if last.generation in facts.lives else 0)
        if (well or never) and not told["ready"] and not facts.paused(name, last.at, EVER):
            if facts.changing(0, EVER) and not well:
                continue
            if told["condition"] == "SubscriberFails" and not well:
                continue
            if well and "filter: MemoryError" in told["reason"] and facts.faults(("memory",), attempts[-1].at, last.at):
                continue  # what came after the last attempt went to the dead letter without one
            yield last.at, f"{name} works, but its status says {told['condition']}: {told['reason']}"
        if told.get("blocked"):
            yield last.at, f"{name} is at rest, but its status says that it is blocked"
    for told in last.document.get("brokers", ()):
        if not told["ready"] and not facts.faults(SYNCS, 0, EVER):
            yield (
                last.at,
                f"broker {told['name']} is at rest, but its status says {told['condition']}: {told['reason']}",
            )


@promise("delivery", "A failing subscriber gets one line at once")
def the_log_is_short(facts: Facts) -> Found:
    for life in facts.lives.values():
        for name in facts.names:
            mine = [x for x in facts.logged if f"trigger {name}" in x.text and life.begin <= x.at <= life.end]
            told: list[Logged] = []
            for line in mine:
                if "ready again" in line.text or "attempts again" in line.text:
                    told = []
                if "attempts failed at" not in line.text:
                    continue
                if any(life.begin <= a <= line.at for a, _ in facts.reloads):
                    break
                told = [x for x in told if x.at > line.at - 59]
                told.append(line)
                if len(told) > 1:
                    yield line.at, f"the log has {len(told)} lines about failures of {name} in a minute: {line.text}"
                    break


@promise("delivery", "An event that can't be delivered is written to the [dead letter]")
def dead_letters_are_counted(facts: Facts) -> Found:
    for status in facts.statuses:
        life = facts.lives.get(status.generation)
        if life is None or any(life.begin <= a <= status.at for a, _ in facts.reloads):
            continue
        for name in facts.names:
            told = of_trigger(status, name)
            if told is None:
                continue
            writes = [
                w
                for (trigger, id), found in facts.dead_of.items()
                if trigger == name and possible(facts, id)
                for w in found
                if (w.generation < 0 or w.generation == status.generation) and w.took and w.at <= status.at
            ]
            if told["dead_lettered"] > len(writes) and not facts.letters and not _in_a_file(facts, name):
                yield (
                    status.at,
                    f"{len(writes)} dead letters of {name} were taken; its status says {told['dead_lettered']}",
                )


def _in_a_file(facts: Facts, name: str) -> bool:
    configs = facts.configs(0, EVER)
    own = all(t.dead_letter == "own" for c in configs for t in c.triggers if t.name == name)
    return not own and any(c.dead_letter == "file" for c in configs)
