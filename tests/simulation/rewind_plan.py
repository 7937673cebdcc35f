"""Plans about rewinds at random points, with kills, restarts, reloads, subscribers that fail, and several workers. They
have seeds of their own."""

from __future__ import annotations

from random import Random

from .plan import Config, Event, Fault, Network, Plan, Policy, Rewind, Send, Trigger

BUSY_S = 12.0
"""The first events come until then."""


def rewinding(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(f"{seed}/rewinding")
    workers = random.choice((1, 1, 1, 2, 3))
    policy = Policy(retry=50, order=random.choice(("unordered", "key", "key")), max_in_flight=random.choice((1, 4, 16)))
    triggers = (Trigger("t1", policy=policy), Trigger("t2"))
    first = Config(triggers, workers=workers, drain_timeout_s=random.choice((0.0, 5.0)))
    edited = Config(
        (Trigger("t1", policy=Policy(50, order=policy.order, max_in_flight=2)), triggers[1]),
        workers=workers,
        drain_timeout_s=first.drain_timeout_s,
    )
    sends = []
    count = random.choice((10, 30, 60))
    for number in range(count):
        event = Event(f"e{number}", "a", random.choice(("", "k1", "k2")))
        at = round(3.0 + number * (BUSY_S - 4.0) / count, 4)
        sends.append(Send(at, (event,), random.randrange(3), tries=5))
    for number in range(random.choice((0, 20))):
        event = Event(f"live{number}", "a", random.choice(("", "k1", "k2")))
        sends.append(Send(round(random.uniform(BUSY_S, BUSY_S + 6.0), 4), (event,), 3, tries=5))
    begins = sorted(random.uniform(8.0, BUSY_S + 6.0) for _ in range(random.choice((1, 1, 2))))
    backs = [random.choice((random.uniform(0.0, at - 2.0), random.uniform(0.0, 0.5))) for at in begins]
    rewinds = tuple(Rewind(round(at, 4), "t1", round(at - back, 4)) for at, back in zip(begins, backs, strict=True))
    faults: list[Fault] = []
    for _ in range(random.choice((0, 1, 2, 3))):
        at = round(random.choice(begins) + random.choice((-1.0, 0.005, 0.03, 0.3, 2.0)) * random.random(), 4)
        kind = random.choice(("crash", "crash", "restart", "reload", "status", "status", "vanish", "worker-crash"))
        match kind:
            case "crash":
                faults.append(Fault(at, kind, "", random.choice((0.0, 0.5)), random.choice((0, 0, 1, 3, 8))))
            case "restart":
                faults.append(Fault(at, kind, "", random.choice((0.0, 0.5))))
            case "reload":
                faults.append(Fault(at, kind, amount=random.choice((0, 1, 1))))
            case "status":
                faults.append(Fault(at, kind, "t1", random.choice((0.2, 2.0)), 503))
            case "worker-crash" if workers > 1:
                faults.append(Fault(at, kind, amount=random.randrange(workers)))
            case "vanish":
                faults.append(Fault(at, kind, "t1", random.choice((0.2, 2.0))))
    return Plan(
        seed,
        (first, edited),
        tuple(sorted(sends, key=lambda send: send.at)),
        tuple(sorted(faults, key=lambda fault: fault.at)),
        Network(random.choice((0.0005, 0.005))),
        BUSY_S + 20.0,
        rewinds=rewinds,
    )
