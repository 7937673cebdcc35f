"""Plans about delays and schedules, with crashes, stops, reloads, clock steps and operators. They have seeds of their
own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

from .plan import DUE, EPOCH_S, Config, Event, Fault, Filter, Network, Operation, Plan, Policy, Schedule, Send, Trigger

AGE_S = 60.0
"""What retention deletes, in plans with it. It looks every ten seconds."""


def later(seed: int) -> Plan:
    """The plan of a seed: of two, one is about delays, one about schedules."""
    random = Random(f"{seed}/later")
    return _delaying(seed, random) if seed % 2 == 0 else _scheduling(seed, random)


def _network(random: Random) -> Network:
    return Network(random.choice((0.0005, 0.005)))


def _faults(
    random: Random, busy_s: float, steps: tuple[int, ...], moments: Sequence[float], most: int = 5
) -> list[Fault]:
    """Faults at any time, or just after one of these moments."""
    faults: list[Fault] = []
    for _ in range(random.choice((0, 1, 2, 4, most))):
        at = round(random.uniform(1.0, busy_s), random.choice((0, 4)))
        if random.random() < 0.5:
            at = round(random.choice(moments) + random.choice((0.01, 0.03, 0.1)) * random.random(), 4)
        match random.choice(("crash", "crash", "crash", "power", "restart", "reload", "clock", "clock")):
            case "crash":
                down = random.choice((0.0, 0.5, 10.0, 80.0))
                faults.append(Fault(at, "crash", "", down, random.choice((0, 0, 1, 2, 3, 5, 8, 13))))
            case "power":
                faults.append(Fault(at, "power", "", random.choice((0.5, 10.0, 90.0)), random.choice((0, 1, 3))))
            case "restart":
                faults.append(Fault(at, "restart", "", random.choice((0.0, 0.5, 40.0))))
            case "reload":
                faults.append(Fault(at, "reload", amount=random.choice((0, 1, 1))))
            case "clock":
                faults.append(Fault(at, "clock", amount=random.choice(steps)))
    return faults


def _due(random: Random, at: float) -> str:
    if random.random() < 0.5:
        return random.choice(("PT1S", "3s", "20s", "PT2M", "30m"))
    due = EPOCH_S + at + random.choice((-10.0, 0.5, 5.0, 40.0, 1000.0))
    return datetime.fromtimestamp(round(due, random.choice((0, 3))), UTC).isoformat()


def _delaying(seed: int, random: Random) -> Plan:
    busy_s = random.choice((15.0, 60.0))
    policy = Policy(retry=random.choice((3, 50)), max_in_flight=random.choice((1, 16, 64)))
    at_time = random.random() < 0.5
    delay_s = random.choice((0.5, 3.0, 3.0, 15.0, 2000.0, 2000.0))
    triggers = (
        Trigger("t1", random.choice((Filter(), Filter("type", "a"))), policy, delay_s=delay_s, deliver_at=at_time),
        Trigger("t2", delay_s=random.choice((0.0, 0.0, 1.5))),
    )
    first = Config(triggers, max_age_s=random.choice((0.0, AGE_S)))
    changed = random.choice((0.0, delay_s, 7.0))
    other = Filter("type", "b") if random.random() < 0.2 else triggers[0].filter
    limit = replace(policy, max_in_flight=random.choice((2, 8)))
    edited = replace(triggers[0], filter=other, policy=limit, delay_s=changed, deliver_at=at_time and changed > 0)
    count = random.choice((5, 20, 60))
    sends: list[Send] = []
    for number in range(count):
        at = round(random.uniform(1.5, busy_s), 4)
        extra = ((DUE, _due(random, at)),) if random.random() < 0.5 else ()
        event = Event(f"e{number}", random.choice("aab"), random.choice(("", "k1")), extra=extra)
        sends.append(Send(at, (event,), random.randrange(2), tries=5))
    moments = [send.at for send in sends] + [send.at + delay_s for send in sends if delay_s < 20.0]
    faults = _faults(random, busy_s + min(delay_s, 30.0), (-3600, -60, -5, 2, 60, 3600, 3600), moments)
    for _ in range(random.choice((0, 1, 1, 2))):
        kind = random.choice(("status", "silent", "vanish", "pause"))
        at = round(random.choice((random.uniform(2.0, busy_s + 10.0), random.choice(moments) - 0.1)), 4)
        seconds = random.choice((0.5, 5.0))
        faults.append(Fault(at, kind, "t1", seconds, 503 if kind == "status" else 0))
        if random.random() < 0.7:
            faults.append(Fault(round(at + seconds * random.random(), 4), "crash", "", 0.5))
    if random.random() < 0.3:
        faults.append(Fault(busy_s + 16.0, "clock", amount=3600))  # nothing else comes after it
    operations = []
    for _ in range(random.choice((0, 0, 3, 8))):
        chosen, what = random.choice(sends), random.choice(("cancel", "cancel", "now"))
        at = round(chosen.at + random.choice((0.02, 1.0, 2.98, 10.0)) * random.random(), 4)
        operations.append(Operation(at, what, "t1", chosen.events[0].id))
    return Plan(
        seed,
        (first, replace(first, triggers=(edited, triggers[1]))),
        tuple(sorted(sends, key=lambda send: send.at)),
        tuple(sorted(faults, key=lambda fault: fault.at)),
        _network(random),
        # retention takes some time to delete what was delivered
        busy_s + (100.0 if first.max_age_s else 40.0),
        settle_s=120.0,
        operations=tuple(sorted(operations, key=lambda operation: operation.at)),
    )


def _scheduling(seed: int, random: Random) -> Plan:
    busy_s = random.choice((60.0, 300.0))
    missed = ("skip", "last", "all")
    # of the longest, runs are only seen when the clock is set
    periods = (5, 11, 30, 100, 100, 900)
    schedules = (
        Schedule("s1", random.choice(periods), random.choice(missed)),
        Schedule("s2", random.choice(periods), random.choice(missed)),
    )[: random.choice((1, 1, 2))]
    first = Config((Trigger("t1"),), schedules=schedules, deduplicate=random.random() < 0.6)
    edited = replace(first, schedules=tuple(replace(s, subject=random.choice(("", "new"))) for s in schedules))
    moments = [float(at) for s in schedules for at in range(s.every, int(busy_s) + 1, s.every)] or [1.0]
    faults = _faults(random, busy_s, (-400, -60, -3, 3, 61, 400, 1000), moments, most=8)
    if random.random() < 0.6:
        faults.append(Fault(round(random.uniform(1.0, busy_s), 4), "clock", amount=random.choice((61, 400, 1000))))
    return Plan(
        seed,
        (first, edited),
        (),
        tuple(sorted(faults, key=lambda fault: fault.at)),
        _network(random),
        busy_s + 20.0,
    )
