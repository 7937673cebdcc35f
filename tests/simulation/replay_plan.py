"""Plans about replays of past events, with crashes, stops, reloads and subscribers that fail during them. They have
seeds of their own."""

from __future__ import annotations

from random import Random

from .plan import Config, Event, Fault, Filter, Network, Plan, Policy, Replay, Send, Trigger

BUSY_S = 20.0
"""The first events come until then; replays select among these."""


def replaying(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(f"{seed}/replaying")
    order = random.choice(("unordered", "key", "key"))
    policy = Policy(retry=random.choice((3, 50)), order=order, max_in_flight=random.choice((1, 4, 16, 64)))
    triggers = (
        Trigger("t1", random.choice((Filter(), Filter("type", "a"))), policy),
        Trigger("t2"),
    )
    first = Config(triggers)
    limit = random.choice((2, 8))
    edited = Config(
        (Trigger("t1", triggers[0].filter, Policy(policy.retry, order=order, max_in_flight=limit)), triggers[1])
    )
    count = random.choice((20, 100, 300))
    sends = []
    for number in range(count):
        event = Event(f"e{number}", random.choice("aab"), random.choice(("", "k1", "k2", "k3")))
        at = round(3.0 + number * (BUSY_S - 5.0) / count, 4)
        sends.append(Send(at, (event,), random.randrange(2), tries=5))
    for number in range(random.choice((0, 20, 80))):
        event = Event(f"live{number}", random.choice("ab"), random.choice(("", "k1", "k2")))
        sends.append(Send(round(random.uniform(BUSY_S, BUSY_S + 15.0), 4), (event,), 3, tries=5))
    since, until = sorted(random.uniform(0.0, BUSY_S) for _ in range(2))
    span = random.choice(((0.0, BUSY_S), (since, until)))
    rate = random.choice((0.0, 20.0, 100.0))
    asked = "key" if random.random() < 0.4 else ""
    begin = BUSY_S + random.uniform(0.5, 2.0)
    replays = (Replay(begin, "t1", *span, rate, asked),)
    faults: list[Fault] = []
    for _ in range(random.choice((0, 1, 2, 4))):
        at = round(begin + random.choice((0.01, 0.5, 3.0, 10.0)) * random.random(), 4)
        kind = random.choice(("crash", "crash", "restart", "reload", "status", "silent", "vanish", "pause"))
        match kind:
            case "crash":
                faults.append(Fault(at, kind, "", random.choice((0.0, 0.5)), random.choice((0, 0, 1, 5))))
            case "restart":
                faults.append(Fault(at, kind, "", random.choice((0.0, 0.5))))
            case "reload":
                faults.append(Fault(at, kind, amount=random.choice((0, 1, 1))))
            case "status":
                faults.append(Fault(at, kind, "t1", random.choice((0.2, 2.0)), 503))
            case "pause":
                faults.append(Fault(at, kind, "t1", random.choice((0.2, 3.0))))
            case _:
                faults.append(Fault(at, kind, "t1", random.choice((0.2, 2.0))))
    return Plan(
        seed,
        (first, edited),
        tuple(sorted(sends, key=lambda send: send.at)),
        tuple(sorted(faults, key=lambda fault: fault.at)),
        Network(random.choice((0.0005, 0.005))),
        BUSY_S + 30.0,
        replays=replays,
    )
