"""Promises about schedules: each planned run once, missed ones by policy, and never early."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from ..facts import Facts
from ..history import Ended, Quiet, StartFailed, Starting, Stored
from ..plan import EPOCH_S, Schedule
from .later import Clock
from .registry import Found, promise

LOOK_S = 31.0
"""A clock that is set is noticed after so long at the latest."""
LATE_S = 61.0
DONE_S = 2.0
"""After so long a run is stored, if all is well."""


class Run(NamedTuple):
    """A planned run: its time, the first moment at which the gateway's clock showed it, whether it is stored."""

    schedule: Schedule
    planned: int
    at: float
    stored: bool

    def __str__(self) -> str:
        return f"run {self.planned - EPOCH_S} of {self.schedule.name} (every {self.schedule.every} s)"


def stored_runs(facts: Facts) -> dict[tuple[str, int], int]:
    """How often each run is in the log."""
    found = {}
    for one in facts.history.of(Stored):
        name, _, stamp = one.id.partition("/")
        found[name, int(datetime.fromisoformat(stamp).timestamp())] = one.count
    return found


def runs(facts: Facts, clock: Clock) -> Iterator[Run]:
    """Those that were certainly planned after the first start, and due before the end."""
    first = next(iter(sorted(life.begin for life in facts.lives.values())), None)
    if first is None:
        return
    there = stored_runs(facts)
    begin = clock.between(0.0, first)[1]
    last = next(facts.history.of(Quiet)).at - LOOK_S
    _, end = clock.between(0.0, last)
    for schedule in facts.plan.configs[0].schedules:
        planned = (int(begin) // schedule.every + 1) * schedule.every
        while planned <= end:
            at = clock.reached(planned, first)
            if at < last:
                yield Run(schedule, planned, at, (schedule.name, planned) in there)
            planned += schedule.every


@promise("howto/schedule-events", "The source `schedule` makes an event at each planned time")
def each_planned_run_is_made(facts: Facts) -> Found:
    """If the gateway ran, and nobody set its clock."""
    clock = Clock(facts)
    for run in runs(facts, clock):
        life = facts.life(run.at)
        if run.stored or life is None or life.begin > run.at - 1.0 or life.end < run.at + DONE_S:
            continue
        if clock.steady(run.at - LOOK_S, run.at + DONE_S) and not facts.changing(run.at - 5.0, run.at + DONE_S):
            yield run.at, f"{run} is not in the log"


@promise("howto/schedule-events", "| `all` | all of them, in order |")
def all_missed_runs_are_made(facts: Facts) -> Found:
    """Those that are due by what the clock shows in the end: it may have been set back while no gateway ran."""
    clock = Clock(facts)
    end = next(facts.history.of(Quiet)).at - LOOK_S
    shown = clock.between(end, end)[0]
    for run in runs(facts, clock):
        if run.schedule.missed == "all" and run.planned <= shown and not run.stored:
            yield run.at, f"{run} is not in the log, though `missed` is all"


@promise("howto/schedule-events", "| `last` (default) | the last one of those that are due |")
def the_last_missed_run_is_made(facts: Facts) -> Found:
    for run, begin in _last_missed(facts):
        if run.schedule.missed == "last" and not run.stored:
            yield begin, f"{run} was the last one that was due at {begin:.3f} s, and is not in the log"


@promise("howto/schedule-events", "| `skip` | nothing for missed runs |")
def skipped_runs_are_not_made(facts: Facts) -> Found:
    """Those that were followed by another one before the gateway could make them (`last` leaves them out, too), or were
    late by more than a minute: no gateway ran, or its clock was set."""
    clock = Clock(facts)
    steps = {s.begin for s in facts.spans if s.kind == "clock"}
    lives = sorted(life.begin for life in facts.lives.values())
    starts = sorted(s.at for s in facts.history.of(Starting))
    for run in runs(facts, clock):
        if run.schedule.missed == "all" or not run.stored:
            continue
        most_s = run.schedule.every if run.schedule.missed == "last" else min(run.schedule.every, LATE_S)
        if run.at in steps:
            # the gateway looks at the clock every half minute: it may have been set back before that
            if clock.between(run.at + 0.001, run.at + LOOK_S)[0] - run.planned >= most_s:
                yield run.at, f"{run} was missed when the clock was set, and was made"
            continue
        if facts.life(run.at) is not None:
            continue
        begin = next((at for at in starts if at >= run.at), None)
        if begin is None or not any(at >= begin for at in lives):
            continue
        # a start that was not complete may have made it
        down = not any(a <= run.at <= b for a, b in _awake(facts))
        if down and clock.between(begin, begin)[0] - run.planned >= most_s:
            yield begin, f"{run} was missed, and was made though `missed` is {run.schedule.missed}"


def _awake(facts: Facts) -> Iterator[tuple[float, float]]:
    """When a gateway ran, or began to."""
    ends = sorted(record.at for record in _all_ends(facts))
    for start in facts.history.of(Starting):
        yield start.at, next((end for end in ends if end >= start.at), facts.end)


def _all_ends(facts: Facts) -> Iterator[Ended | StartFailed]:
    return (record for record in facts.history.records if isinstance(record, Ended | StartFailed))


def _last_missed(facts: Facts) -> Iterator[tuple[Run, float]]:
    """Runs that were due while no gateway ran, and were the last ones at a start that then lived on; with its time.
    Or, while one ran, when its clock was set."""
    clock = Clock(facts)
    steps = {s.begin for s in facts.spans if s.kind == "clock"}
    for run in runs(facts, clock):
        if run.at in steps and (life := facts.life(run.at)) is not None:
            until = run.at + LOOK_S + DONE_S
            alone = clock.between(run.at, until)[1] < run.planned + run.schedule.every
            steady = clock.steady(run.at + 0.001, until) and not facts.changing(run.at - 5.0, until)
            if alone and steady and life.begin < run.at - 1.0 and life.end > until:
                yield run, run.at
            continue
        if any(a <= run.at <= b for a, b in _awake(facts)):
            continue
        life = next((x for x in sorted(facts.lives.values(), key=lambda x: x.begin) if x.begin >= run.at), None)
        if life is None or life.end < life.begin + DONE_S:
            continue
        shown = clock.between(run.at, life.begin + DONE_S)[1]
        if shown < run.planned + run.schedule.every and clock.steady(run.at - 1.0, life.begin + LOOK_S):
            yield run, life.begin


@promise("howto/schedule-events", "An event is never early.")
def a_run_is_never_early(facts: Facts) -> Found:
    clock = Clock(facts)
    for attempts in facts.attempts_of.values():
        name, _, stamp = attempts[0].id.partition("/")
        if attempts[0].attributes.get("type") != "tick":
            continue
        planned = datetime.fromisoformat(stamp).timestamp()
        if clock.between(0.0, attempts[0].at)[1] < planned:
            yield attempts[0].at, f"the run {planned - EPOCH_S:g} of {name} came early"


@promise("howto/schedule-events", "If the clock is set back, no run is repeated")
def a_run_is_repeated_only_after_a_crash(facts: Facts) -> Found:
    crashes = sum(not (isinstance(record, Ended) and record.how == "stop") for record in _all_ends(facts))
    for (name, planned), count in stored_runs(facts).items():
        if count > 1 + crashes:
            yield facts.end, f"run {planned - EPOCH_S} of {name} is {count} times in the log, after {crashes} crashes"


@promise("howto/schedule-events", "With [deduplication](deduplicate.md) it is in the log once.")
def each_run_is_stored_once(facts: Facts) -> Found:
    if facts.plan.configs[0].deduplicate:
        for (name, planned), count in stored_runs(facts).items():
            if count > 1:
                yield facts.end, f"run {planned - EPOCH_S} of {name} is {count} times in the log"
