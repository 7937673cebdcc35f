"""Plans about reloads that take their time, with stops, crashes and more reloads during them."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from .queue_plan import MQTT, Queues

if TYPE_CHECKING:
    from .plan import Config, Plan

SHARE = 0.15
"""The part of the seeds without another rule."""
DRAINS_S = (2.0, 5.0, 20.0)


def reloading(seed: int) -> Plan | None:
    """The plan of a seed that is about reloads under way; None for other seeds."""
    random = Random(f"{seed}/reloading")
    return _drawn(random, seed) if random.random() < SHARE else None


def _edited(random: Random, config: Config) -> Config:
    """Changes to several parts at once, each of which waits for what is under way."""
    from .plan import Bridge, Policy, Trigger

    triggers = list(config.triggers)
    for number, trigger in enumerate(triggers):
        if random.random() < 0.6:
            limit = random.choice((1, 4, 16))
            triggers[number] = replace(trigger, policy=replace(trigger.policy, max_in_flight=limit))
    if random.random() < 0.3:
        triggers.append(Trigger("added", policy=Policy(retry=10, timeout_s=5.0)))
    bridges = tuple(Bridge(b.name, replace(b.policy, timeout_s=random.choice((1.5, 5.0)))) for b in config.bridges)
    queues = config.queues
    if queues is not None:
        more = tuple(topic for topic in ("in/a", "in/b") if topic not in queues.topics)
        queues = replace(queues, topics=(*more, *queues.topics), receive_maximum=random.choice((10, 500)))
    letters = random.choice((config.dead_letter, "file", "http"))
    return replace(config, triggers=tuple(triggers), bridges=bridges, queues=queues, dead_letter=letters)


def _drawn(random: Random, seed: int) -> Plan:
    """A reload that waits for subscribers that do not answer; meanwhile the gateway stops, crashes or reloads."""
    from .plan import Bridge, Config, Event, Fault, Network, Plan, Policy, Send, Trigger

    drain_s = random.choice(DRAINS_S)
    orders = ("unordered", "unordered", "key", "partition")
    triggers = tuple(
        Trigger(f"t{n}", policy=Policy(retry=10, timeout_s=random.choice((5.0, 30.0)), order=random.choice(orders)))
        for n in range(1, random.choice((2, 3, 4)))
    )
    bridges = (Bridge("b1", Policy(retry=0, timeout_s=5.0)),) if random.random() < 0.3 else ()
    queues = Queues(random.choice((("in/a",), ("in/b",))), first=random.random() < 0.5)
    first = Config(triggers, bridges, drain_timeout_s=drain_s, queues=queues if random.random() < 0.4 else None)
    configs = [first]
    while len(configs) < random.choice((2, 3)):
        configs.append(_edited(random, first))
    faults: list[Fault] = []
    for round_ in range(random.choice((1, 2, 3))):
        at = 5.0 + round_ * 30.0 + random.uniform(0.0, 5.0)
        for trigger in triggers:
            if random.random() < 0.6:
                lasting = random.choice((1.0, 0.5 * drain_s, 2 * drain_s))
                kind = random.choice(("silent", "late", "silent"))
                faults.append(Fault(round(at - 1.0, 3), kind, trigger.name, lasting + 1.0, 4000))
        if random.random() < 0.3:
            faults.append(Fault(round(at - 0.1, 3), "disk-slow", "", 5.0, 300))
        if first.queues is not None and random.random() < 0.3:
            faults.append(Fault(round(at - 0.5, 3), random.choice(("queue-away", "queue-vanish")), MQTT, 10.0))
        faults.append(Fault(round(at, 3), "reload", amount=0 if round_ % 2 else len(configs) - 1))
        for _ in range(random.choice((1, 1, 2))):
            during = at + random.choice((0.0, 0.001, 0.01, 1.0)) * random.random() + random.choice((0.0, 0.8)) * drain_s
            kind = random.choice(("restart", "restart", "restart", "crash", "power", "reload"))
            amount = random.choice((0, 0, 3)) if kind != "reload" else random.randrange(len(configs))
            faults.append(Fault(round(during, 4), kind, "", random.choice((0.0, 0.5)), amount * (kind != "restart")))
    sends = []
    for number in range(random.choice((20, 60))):
        event = Event(f"e{number}", key=random.choice(("", "k1", "k2")))
        to, mode = random.choice(("default", *(bridge.name for bridge in bridges))), "binary"
        if to == "default" and first.queues is not None and random.random() < 0.4:
            mode = MQTT
        at = round(random.uniform(1.0, 90.0) if random.random() < 0.3 else random.uniform(3.5, 12.0), 4)
        connection = random.randrange(3) if mode != MQTT else ("in/a", "in/b").index(queues.topics[0])
        sends.append(Send(at, (event,), connection, to, mode, tries=1 if mode == MQTT else 3))
    return Plan(
        seed,
        tuple(configs),
        tuple(sorted(sends, key=lambda send: send.at)),
        tuple(sorted(faults, key=lambda fault: fault.at)),
        Network(random.choice((0.0005, 0.005))),
        95.0,
    )
