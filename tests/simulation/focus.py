"""Plans about one rule. Some rules matter only in a situation that independent draws hardly ever make: a subscriber
that says 503 for long to many, a single event that never gets an answer, a stop while answers come. A part of the seeds
gets a plan that is nothing but such a situation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from . import kafka_focus
from .plan import Bridge, Config, Event, Fault, Filter, Network, Plan, Policy, Send, Trigger
from .shortages import PLACES

SHARE = 0.4
"""The part of the seeds."""
LATER_SHARE = 0.25
"""The part of the other seeds that gets a plan of `LATER`."""
ANSWERS = (201, 206, 299, 400, 404, 409, 429, 500, 503, 503, 503)
LATENCIES = (0.0005, 0.005, 0.05)


def focused(seed: int) -> Plan | None:
    """The plan of a seed that is about one rule; None if it is about everything."""
    random = Random(f"{seed}/focus")
    situations = SITUATIONS
    if random.random() >= SHARE:
        random, situations = Random(f"{seed}/later-focus"), LATER
        if random.random() >= LATER_SHARE:
            return None
    plan = random.choice(situations)(random, seed)
    return replace(
        plan,
        sends=tuple(sorted(plan.sends, key=lambda send: send.at)),
        faults=tuple(sorted(plan.faults, key=lambda fault: fault.at)),
    )


def _load(random: Random, count: int, begin: float, end: float, *, keys: bool = False) -> tuple[Send, ...]:
    """Single events, evenly or in bursts, on four connections."""
    bursts = [random.uniform(begin, end) for _ in range(random.choice((1, 3)))] if random.random() < 0.5 else []
    made = []
    for number in range(count):
        at = random.choice(bursts) + random.random() * 0.05 if bursts else random.uniform(begin, end)
        key = random.choice(("", "k1", "k2")) if keys else ""
        event = Event(f"e{number}", random.choice(("a", "b")), key, random.choice((0, 8, 500)))
        made.append(Send(round(at, 4), (event,), random.randrange(4), tries=random.choice((1, 3))))
    return tuple(made)


def _network(random: Random) -> Network:
    return Network(random.choice(LATENCIES))


def _answers(random: Random, seed: int) -> Plan:
    """A subscriber answers many events with one status after the other, each for long."""
    policy = Policy(
        retry=random.choice((3, 10, 10)),
        backoff=random.choice(("exponential", "linear")),
        backoff_delay_s=random.choice((0.0, 0.05, 1.0, 1.0)),
        backoff_max_s=random.choice((0.5, 2.0, 5.0)),
        timeout_s=random.choice((5.0, 30.0)),
        max_in_flight=random.choice((2, 16, 64, 64)),
    )
    network, begin, end = _network(random), 1.0, 40.0
    if random.random() < 0.4:  # a storm: many at once, and as soon as they may again
        policy = replace(policy, retry=10, backoff_delay_s=0.0, max_in_flight=random.choice((16, 64)))
        network, begin, end = Network(0.05), 1.0, 1.2
    at, faults = 0.5, []
    while at < 60.0:
        lasting = random.choice((1.0, 10.0, 40.0))
        faults.append(Fault(round(at, 3), "status", "t1", lasting, random.choice(ANSWERS)))
        at += lasting + random.choice((0.0, 5.0))
    config = Config((Trigger("t1", policy=policy),), dead_letter=random.choice(("http", "file")))
    sends = _load(random, random.choice((10, 40, 100)), begin, end)
    return Plan(seed, (config,), sends, tuple(faults), network, 60.0)


def _outage(random: Random, seed: int) -> Plan:
    """A subscriber is down for long, and may then answer with a status before it is well."""
    policy = Policy(
        retry=random.choice((2, 4, 10)),
        backoff=random.choice(("exponential", "linear")),
        backoff_delay_s=random.choice((0.2, 1.0, 8.0, 8.0)),
        backoff_max_s=random.choice((1.0, 5.0, 30.0, 30.0)),
        timeout_s=1.5,
        order=random.choice(("unordered", "unordered", "unordered", "key", "partition")),
    )
    away = random.choice((10.0, 40.0, 120.0))
    faults = [Fault(2.0, random.choice(("refuse", "refuse", "refuse", "vanish")), "t1", away)]
    if random.random() < 0.8:
        faults.append(Fault(1.5, "status", "t1", away + 40.0, random.choice((400, 503))))
    if random.random() < 0.3:  # it ends, with a rejection, while most events have their last wait before them
        policy = replace(policy, retry=2, backoff_delay_s=8.0, backoff_max_s=30.0, order="unordered")
        away, faults = 10.0, [Fault(1.5, "status", "t1", 60.0, 503), Fault(2.0, "refuse", "t1", 10.0)]
    config = Config((Trigger("t1", policy=policy),))
    sends = _load(random, random.choice((10, 30, 60)), 1.0, 4.0 + away / 2, keys=True)
    return Plan(seed, (config,), sends, tuple(faults), _network(random), away + 45.0)


def _hang(random: Random, seed: int) -> Plan:
    """A few events never get an answer, and the gateway may stop or crash meanwhile."""
    policy = Policy(
        retry=random.choice((0, 2, 10)),
        backoff_delay_s=random.choice((0.05, 1.0)),
        timeout_s=random.choice((0.5, 1.5, 5.0, 30.0)),
        max_in_flight=random.choice((2, 16)),
        order=random.choice(("unordered", "unordered", "key", "partition")),
    )
    count = random.choice((15, 40, 80))
    sends = _load(random, count, 1.0, 30.0, keys=True)
    if random.random() < 0.3:  # others wait behind the one that hangs, and then have a hard time of their own
        policy = replace(policy, retry=10, backoff_max_s=0.5, timeout_s=0.5, order="partition")
        sends = tuple(sorted(sends, key=lambda send: send.at))[:20]
        faults = [
            Fault(0.5, "hang", "t1", 90.0, int(sends[0].events[0].id[1:])),
            Fault(1.0, "status", "t1", 60.0, random.choice((500, 503))),
        ]
        return Plan(seed, (Config((Trigger("t1", policy=policy),)),), sends, tuple(faults), Network(0.005), 90.0)
    stops = random.choice((0, 0, 1, 8))
    hangs = random.choice((0, 0, 1) if stops == 8 else (1, 1, 3))
    faults = [Fault(0.5, "hang", "t1", 90.0, random.randrange(count)) for _ in range(hangs)]
    for _ in range(stops):
        near = random.choice(sends).at + random.random() * 0.3
        stop = random.choice(("crash", "power", "restart", "restart"))
        faults.append(Fault(round(near, 4), stop, seconds=random.choice((0.0, 0.5))))
    config = Config((Trigger("t1", policy=policy),), drain_timeout_s=random.choice((0.0, 2.0, 20.0)))
    return Plan(seed, (config,), sends, tuple(faults), _network(random), 90.0)


def _bridge(random: Random, seed: int) -> Plan:
    """Batches to a bridge whose sink rejects events for good, or for now, or both in one batch."""
    policy = Policy(
        retry=random.choice((0, 0, 2)), backoff_delay_s=0.05, order=random.choice(("unordered", "partition"))
    )
    faults = []
    for number in range(6):
        kind = random.choice(("mixed", "mixed", "status"))
        faults.append(Fault(5.0 * number, kind, "b1", 4.5, random.choice((400, 422, 503)) if kind == "status" else 0))
    sends = []
    for number in range(random.choice((10, 30))):
        events = tuple(Event(f"e{number}.{part}", key=f"k{part % 3}") for part in range(random.choice((1, 2, 5))))
        sends.append(Send(round(random.uniform(0.5, 30.0), 4), events, number % 3, "b1", "batch"))
    config = Config((Trigger("t1"),), (Bridge("b1", policy, random.random() < 0.2),))
    return Plan(seed, (config,), tuple(sends), tuple(faults), _network(random), 30.0)


def _shortage(random: Random, seed: int) -> Plan:
    """The gateway's machine runs short of descriptors or memory, while everything else is well."""
    place = random.randrange(len(PLACES)) if random.random() < 0.7 else None  # mostly the same one
    simulated = random.random() < 0.5
    policy = Policy(
        retry=random.choice((0, 1, 3)),
        backoff_delay_s=random.choice((0.05, 0.5)),
        order=random.choice(("unordered", "key")),
    )
    trigger = Trigger(
        "t1",
        Filter("simulated", "a") if simulated else Filter(),
        policy,
        sink=random.choice(("http", "http", "simulated")),
        mapper="simulated" if policy.order == "key" and simulated else "",
    )
    faults = [
        Fault(
            round(random.uniform(0.0, 30.0), 3),
            kind,
            seconds=random.choice((0.1, 1.0, 5.0)),
            amount=0 if kind == "short" else random.randrange(len(PLACES)) if place is None else place,
        )
        for kind in random.choices(("short", "memory"), (1, 3), k=random.choice((1, 5, 20)))
    ]
    if random.random() < 0.3:
        faults.append(Fault(round(random.uniform(1, 30), 3), random.choice(("restart", "crash"))))
    if random.random() < 0.5:  # retries and dead letters
        faults.append(Fault(round(random.uniform(0, 20), 3), "status", "t1", 10.0, random.choice((400, 503))))
    config = Config(
        (trigger,),
        dead_letter=random.choice(("http", "file")),
        observer=random.random() < 0.3,
        codec=random.choice(("", "simulated")),
        authenticator=random.random() < 0.3,
    )
    sends = _load(random, random.choice((10, 40, 100)), 0.5, 30.0, keys=True)
    return Plan(seed, (config,), sends, tuple(faults), _network(random), 32.0)


def _disk(random: Random, seed: int) -> Plan:
    """A disk that fails to sync for a moment, or lies about it, with a loss of power now and then."""
    sends = _load(random, random.choice((20, 60, 120)), 0.5, 40.0)
    lies = random.random() < 0.5
    faults = []
    for _ in range(random.choice((1, 1, 3))):
        at = round(random.choice((0.0, random.uniform(0.0, 30.0), random.uniform(0.0, 30.0))), 3)
        if lies:
            lasting = random.choice((0.5, 5.0, 20.0))
            faults.append(Fault(at, "disk-lies", seconds=lasting))
            for stop in random.choice((("power",), ("restart", "power"), ("crash", "power"), ())):
                at = round(at + random.random() * lasting / 2, 3)
                faults.append(Fault(at, stop, seconds=0.5))
        else:
            faults.append(Fault(at, "sync-once", seconds=random.choice((5.0, 20.0)), amount=random.choice((1, 2))))
    for _ in range(random.choice((0, 1, 3)) if lies else random.choice((0, 1))):
        at = round(random.uniform(1.0, 40.0), 3)
        stop = random.choice(("power", "power", "crash", "restart"))
        faults.append(Fault(at, stop, seconds=0.5, amount=random.choice((0, 0, 3, 13)) if stop != "restart" else 0))
    config = Config(
        (Trigger("t1"), Trigger("t2", policy=Policy(order="key"))),
        sync=random.choice(("full", "full", "normal")),
        dead_letter=random.choice(("http", "file")),
    )
    return Plan(seed, (config,), sends, tuple(faults), _network(random), 45.0)


def _letters(random: Random, seed: int) -> Plan:
    """There is no memory for dead letters while a subscriber rejects events."""
    policy = Policy(retry=random.choice((0, 1)), backoff_delay_s=0.05, max_in_flight=random.choice((2, 16)))
    config = Config((Trigger("t1", policy=policy),), dead_letter=random.choice(("http", "file")))
    faults = [Fault(0.5, "status", "t1", random.choice((5.0, 20.0)), random.choice((400, 503)))]
    place = PLACES.index("gateway_core.delivery.dead_letter:with_facts")
    times = [round(random.uniform(0.5, 15.0), 3) for _ in range(random.choice((1, 3)))]
    faults += [Fault(at, "memory", "", random.choice((0.2, 3.0)), place) for at in times]
    sends = _load(random, random.choice((10, 40)), 1.0, 20.0)
    return Plan(seed, (config,), sends, tuple(faults), _network(random), 30.0)


def _lies(random: Random, seed: int) -> Plan:
    """The disk lies when the gateway moves its log between files, and the power fails before those events are
    delivered."""
    config = Config((Trigger("t1", policy=Policy(retry=10, timeout_s=1.5)),), sync=random.choice(("full", "normal")))
    faults, sends = [], list[Send]()
    for begin in (0.0, 20.0, 40.0):
        lie, stop = begin + random.uniform(3.0, 4.0), begin + random.uniform(5.0, 8.0)
        faults += [
            Fault(begin + 0.5, "refuse", "t1", 14.0),
            Fault(begin + 2.0, "restart"),  # the file has what came before, so that not all of it is lost
            Fault(round(lie, 3), "disk-lies", seconds=10.0),
            Fault(round(stop, 3), "restart"),
            Fault(round(stop + random.choice((0.3, 1.0, 3.0)), 3), "power", seconds=0.5),
        ]
        for _ in range(random.choice((5, 5, 15))):
            event = Event(f"e{len(sends)}", size=random.choice((8, 4500, 4500, 4500)))  # more than fits into a page
            sends.append(Send(round(random.uniform(begin + 0.6, stop + 0.5), 4), (event,), len(sends) % 3))
    return Plan(seed, (config,), tuple(sends), tuple(faults), _network(random), 60.0)


SITUATIONS: tuple[Callable[[Random, int], Plan], ...] = (
    *(_answers, _outage, _outage, _hang, _hang, _hang),
    *(_bridge, _shortage, _shortage, _disk, _disk),
)
LATER: tuple[Callable[[Random, int], Plan], ...] = (
    *(kafka_focus.refused, kafka_focus.full, kafka_focus.moved, kafka_focus.uncommitted),
    *(_letters, _lies, _lies),
)
"""Those that came later. They take nothing from the seeds of the others."""
