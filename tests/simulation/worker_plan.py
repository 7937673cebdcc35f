"""Plans about several workers: single ones are killed while events come, and stops, crashes and reloads reach all."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from .queue_plan import MQTT, Queues

if TYPE_CHECKING:
    from .plan import Plan

SHARE = 0.15
"""The part of the seeds without another rule."""


def of_workers(seed: int) -> Plan | None:
    """The plan of a seed with several workers; None for other seeds."""
    random = Random(f"{seed}/workers")
    return _drawn(random, seed) if random.random() < SHARE else None


def _drawn(random: Random, seed: int) -> Plan:
    """Kills of single workers, often near others, near reloads, and near the end of a start."""
    from .plan import Config, Event, Fault, Filter, Network, Plan, Policy, Send, Trigger

    workers = random.choice((2, 2, 3))
    policy = Policy(retry=10, timeout_s=5.0, order=random.choice(("unordered", "key", "partition")))
    triggers = [Trigger("t1", policy=policy)]
    if random.random() < 0.4:
        triggers.append(Trigger("t2", Filter("type", "a"), policy, dead_letter="own"))
    queues = Queues(("in/a",), first=random.random() < 0.5) if random.random() < 0.4 else None
    first = Config(
        tuple(triggers),
        queues=queues,
        sync=random.choice(("full", "full", "normal")),
        drain_timeout_s=random.choice((0.0, 5.0)),
        workers=workers,
    )
    edited = tuple(replace(t, policy=replace(policy, max_in_flight=3)) for t in triggers)
    configs, seconds = (first, replace(first, triggers=edited)), 60.0
    times = [round(random.uniform(1.0, seconds), 3) for _ in range(random.choice((1, 2, 3)))]
    faults: list[Fault] = []

    def near(at: float) -> float:
        return round(at + random.choice((0.0005, 0.02, 1.0)) * random.random(), 4)

    for at in times:
        kills = range(random.choice((1, 1, 2, 4)))
        faults += [Fault(near(at), "worker-crash", amount=random.randrange(workers)) for _ in kills]
        if random.random() < 0.5:
            faults.append(Fault(near(at), "reload", amount=random.randrange(2)))
        if random.random() < 0.4:
            faults.append(Fault(near(at), random.choice(("restart", "crash", "power")), seconds=0.5))
        if random.random() < 0.4:
            kind = random.choice(("refuse", "silent", "status"))
            faults.append(Fault(near(at), kind, "t1", random.choice((1.0, 10.0)), 503 if kind == "status" else 0))
        if random.random() < 0.2:
            faults.append(Fault(near(at), "disk-slow", "", 3.0, 300))
        if queues is not None and random.random() < 0.3:
            faults.append(Fault(near(at), "queue-cut", MQTT))
    sends = []
    for number in range(random.choice((20, 60, 120))):
        mode = MQTT if queues is not None and random.random() < 0.4 else "binary"
        at = near(random.choice(times)) - 0.3 if random.random() < 0.5 else random.uniform(1.0, seconds)
        event = Event(f"e{number}", random.choice(("a", "b")), random.choice(("", "k1")))
        connection = 0 if mode == MQTT else random.randrange(6)
        sends.append(Send(round(max(at, 0.5), 4), (event,), connection, mode=mode, tries=1 if mode == MQTT else 5))
    return Plan(
        seed,
        configs,
        tuple(sorted(sends, key=lambda send: send.at)),
        tuple(sorted(faults, key=lambda fault: fault.at)),
        Network(random.choice((0.0005, 0.005))),
        seconds,
        settle_s=200.0,
    )
