"""Plans of a broker that deduplicates: events are sent again, after lost answers, near faults, in one batch, and
after the window, to one worker or several. They have seeds of their own."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from .plan import Config, Event, Fault, Network, Once, Plan, Policy, Send, Trigger


def duplicating(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(f"{seed}/once")
    workers = random.choice((1, 1, 2, 3))
    seconds = 20.0
    once = Once(random.choice((2, 5, 5, 1000)))
    first = Config(
        (Trigger("t1", policy=Policy(retry=10)),),
        sync=random.choice(("full", "full", "full", "normal")),
        drain_timeout_s=random.choice((0.0, 5.0)),
        workers=workers,
        once=once,
    )
    edited = replace(first, once=Once(random.choice((3, 10))))
    centres = [round(random.uniform(3.0, seconds - 6.0), 3) for _ in range(random.choice((1, 2, 3)))]
    return Plan(
        seed,
        (first, edited),
        _sends(random, centres, seconds, float(once.window_s)),
        _faults(random, centres, workers),
        Network(random.choice((0.0005, 0.005))),
        seconds,
        settle_s=200.0,
    )


def _near(random: Random, at: float) -> float:
    return max(0.5, round(at + random.choice((0.001, 0.02, 1.0)) * (random.random() - 0.3), 4))


def _sends(random: Random, centres: list[float], seconds: float, window: float) -> tuple[Send, ...]:
    sends: list[Send] = []
    busy = random.random() < 0.3  # so that there are runs, and several files of them
    for number in range(random.choice((20, 40, 60)) if not busy else 0):
        event = Event(f"e{number}")
        at = _near(random, random.choice(centres)) if random.random() < 0.6 else random.uniform(1.0, seconds - 4.0)
        times = [at]
        for _ in range(random.choice((0, 1, 1, 2, 4))):
            later = random.choice((0.0, 0.0, 0.002, 0.5, 3.0, 0.6 * window, 1.1 * window))
            times.append(min(random.choice(times) + later, seconds - 2.0))
        sends += [_send(random, at, (event,)) for at in times]
    for number in range(random.choice((30, 60)) if busy else 0):
        part = tuple(Event(f"b{number}.{place}") for place in range(random.choice((3, 8))))
        at = 1.0 + number * (seconds - 6.0) / 60
        sends.append(_send(random, at, part))
        for _ in range(random.choice((0, 1))):
            some = tuple(random.choices(part, k=random.randrange(1, 4)))  # an event may be in it twice
            sends.append(_send(random, _near(random, random.choice((at, *centres))) + 0.5, some))
        if random.random() < 0.3:
            old = Event(f"b{random.randrange(number + 1)}.0")
            sends.append(_send(random, at + random.choice((0.1, 0.6 * window, 1.1 * window)), (old,)))
    return tuple(sorted((s for s in sends if s.at < seconds - 1.0), key=lambda send: send.at))


def _send(random: Random, at: float, events: tuple[Event, ...]) -> Send:
    mode = "binary" if len(events) == 1 and random.random() < 0.8 else "batch"
    return Send(round(max(at, 0.5), 4), events, random.randrange(6), mode=mode, tries=random.choice((1, 5, 5)))


def _faults(random: Random, centres: list[float], workers: int) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    for centre in centres:
        at = _near(random, centre)
        kinds = ("crash", "crash", "power", "power", "restart", "disk-full", "disk-error", "sync-once", "disk-slow")
        kind = random.choice((*kinds, *("worker-crash",) * 6) if workers > 1 else kinds)
        match kind:
            case "crash" | "power":
                amount = random.choice((0, 1, 2, 3, 5, 8, 13))
                faults.append(Fault(at, kind, "", random.choice((0.1, 0.5)), amount))
            case "restart":
                faults.append(Fault(at, kind, "", random.choice((0.0, 0.5))))
            case "worker-crash":
                faults += [
                    Fault(_near(random, at), kind, amount=random.randrange(workers))
                    for _ in range(random.choice((1, 2)))
                ]
            case "disk-slow":
                faults.append(Fault(at, kind, "", 3.0, 300))
            case "disk-error":
                faults += [Fault(_near(random, centre), kind, "", 0.1, 1) for _ in range(4)]
            case _:
                faults.append(Fault(at, kind, "", random.choice((0.1, 1.0)), random.choice((1, 2))))
        if random.random() < 0.4:
            faults.append(Fault(_near(random, centre), random.choice(("sender-leave", "sender-cut")), "1", 0.0, 100))
    if random.random() < 0.3:  # another window counts once the gateway starts again
        at = _near(random, random.choice(centres))
        faults += [Fault(at, "reload", amount=1), Fault(at + 1.0, "restart"), Fault(at + 4.0, "restart")]
    return tuple(sorted(faults, key=lambda fault: fault.at))
