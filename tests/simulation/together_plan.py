"""Plans about batches to subscribers, and about triggers that hold their events while a subscriber is down, with
crashes, stops, reloads and subscribers that fail meanwhile. They have seeds of their own."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from .plan import Config, Event, Fault, Filter, Network, Plan, Policy, Send, Trigger

BUSY_S = 25.0
"""The events come until then."""
REJECTED, FAILED = (400, 422), (500, 503, 404)
"""Answers that are final, and some that are not."""


def together(seed: int) -> Plan:
    """The plan of a seed: `t1` has batches, `t2` holds, `t3` does both."""
    random = Random(f"{seed}/together")
    triggers = (
        Trigger("t1", random.choice((Filter(), Filter("type", "a"))), _policy(random), batch=_size(random)),
        Trigger("t2", policy=_held(random)),
        Trigger("t3", policy=_held(random), batch=_size(random)),
    )
    first = Config(triggers, drain_timeout_s=random.choice((0.5, 5.0)))
    edited = replace(
        first,
        triggers=tuple(
            replace(t, batch=t.batch and _size(random), policy=replace(t.policy, max_in_flight=random.choice((4, 64))))
            for t in triggers
        ),
    )
    return Plan(
        seed,
        (first, edited),
        _sends(random),
        tuple(sorted(_faults(random), key=lambda fault: fault.at)),
        Network(random.choice((0.0005, 0.005))),
        BUSY_S + 40.0,
    )


def _size(random: Random) -> int:
    return random.choice((2, 5, 20, 100))


def _policy(random: Random) -> Policy:
    return Policy(
        retry=random.choice((3, 8)),
        backoff_delay_s=random.choice((0.05, 0.2)),
        backoff_max_s=2.0,
        order=random.choice(("unordered", "unordered", "key")),
        max_in_flight=random.choice((4, 16, 64, 200)),
        rate_per_s=random.choice((None, None, 40.0, 100.0)),
    )


def _held(random: Random) -> Policy:
    return replace(_policy(random), hold_while_down=True, rate_per_s=None)


def _sends(random: Random) -> tuple[Send, ...]:
    count = random.choice((20, 60, 200))
    sends = []
    for number in range(count):
        keys = ("", *(f"k{n}" for n in range(8)))
        event = Event(f"e{number}", random.choice("aab"), random.choice(keys))
        at = round(random.choice((3.0, 3.0 + number * (BUSY_S - 5.0) / count)) + random.random(), 4)
        sends.append(Send(at, (event,), random.randrange(3), tries=5))
    return tuple(sorted(sends, key=lambda send: send.at))


def _faults(random: Random) -> list[Fault]:
    faults = []
    if random.random() < 0.9:
        at = round(random.uniform(0.0, 10.0), 4)
        faults.append(Fault(at, "poison", "t1", random.choice((5.0, 60.0)), random.choice(REJECTED + FAILED)))
    if random.random() < 0.6:
        answer = random.choice((0, 1, *REJECTED, *FAILED))
        name = random.choice(("t1", "t3"))
        faults.append(Fault(round(random.uniform(0.0, 15.0), 4), "parts", name, random.choice((5.0, 60.0)), answer))
    if random.random() < 0.4:
        at = round(random.uniform(2.0, 5.0), 4)
        faults.append(Fault(at, "late", "t1", random.choice((5.0, 60.0)), random.choice((10, 60, 400))))
    for name in ("t2", "t3"):
        for _ in range(random.choice((0, 1, 1, 2))):
            at, lasting = round(random.uniform(2.0, 25.0), 4), random.choice((2.0, 15.0, 40.0))
            faults.append(Fault(at, random.choice(("refuse", "refuse", "vanish")), name, lasting))
        if random.random() < 0.4:
            at = round(random.uniform(2.0, 25.0), 4)
            faults.append(Fault(at, "status", name, random.choice((0.3, 2.0)), random.choice((400, *FAILED))))
    for _ in range(random.choice((0, 0, 1, 2, 3))):
        at = round(random.uniform(3.2, 30.0), 4)
        kind = random.choice(("crash", "restart", "reload", "reload", "refuse", "retry-after"))
        match kind:
            case "crash":
                faults.append(Fault(at, kind, "", random.choice((0.0, 0.5)), random.choice((0, 0, 1, 5))))
            case "restart":
                faults.append(Fault(at, kind, "", random.choice((0.0, 0.5))))
            case "reload":
                faults.append(Fault(at, kind, amount=random.choice((0, 1, 1))))
            case _:
                faults.append(Fault(at, kind, "t1", random.choice((0.2, 2.0)), 1))
    return faults
