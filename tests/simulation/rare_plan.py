"""Plans about one rule each whose situation all the other plans hardly ever make: a sink that breaks its contract in
every way, dead letters that fail, a topic that refuses what is written to it, a stop just after a message has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from .choices import KINDS
from .kafka_plan import RECORD, Kafka
from .plan import Bridge, Config, Event, Fault, Filter, Network, Plan, Policy, Send, Trigger
from .queue_plan import NATS, QUEUES, Queues

SHARE = 0.25
"""The part of the seeds that `focus` leaves."""


def rare(seed: int) -> Plan | None:
    """The plan of a seed that is about one such rule; None for other seeds."""
    random = Random(f"{seed}/rare")
    return random.choice(SITUATIONS)(random, seed) if random.random() < SHARE else None


def _load(random: Random, count: int, begin: float, end: float, tries: int = 1) -> tuple[Send, ...]:
    """Single events, one after the other."""
    step = (end - begin) / count
    return tuple(
        Send(
            round(begin + step * number, 4),
            (Event(f"e{number}", "a", random.choice(("", "k1", "k2", "k3"))),),
            number % 4,
            tries=tries,
        )
        for number in range(count)
    )


def _batches(sends: tuple[Send, ...], size: int) -> tuple[Send, ...]:
    """The same requests, each with so many events of different keys."""
    return tuple(
        replace(
            send,
            events=tuple(replace(e, id=f"{e.id}.{part}", key=f"k{part}") for e in send.events for part in range(size)),
            mode="batch",
        )
        for send in sends
    )


def _records(random: Random, to: str, count: int, end: float) -> tuple[Send, ...]:
    """Records in the topic that this broker or bridge reads."""
    return tuple(
        replace(send, events=tuple(replace(e, id=f"{to}-{e.id}") for e in send.events), to=to, mode=RECORD)
        for send in _load(random, count, 1.0, end)
    )


def _plan(random: Random, seed: int, config: Config, sends: tuple[Send, ...], faults: list[Fault], end: float) -> Plan:
    ordered = tuple(sorted(faults, key=lambda fault: fault.at))
    network = Network(random.choice((0.0005, 0.005)))
    return Plan(seed, (config,), tuple(sorted(sends, key=lambda send: send.at)), ordered, network, end)


def _sink(random: Random, seed: int) -> Plan:
    """A plugin's sink does everything that it must not do, one thing after the other."""
    amounts = list(KINDS["sink"].amounts)
    random.shuffle(amounts)
    faults = [Fault(3.0 * number, "sink", "t1", 2.5, amount) for number, amount in enumerate(amounts)]
    policy = Policy(
        retry=random.choice((2, 10)),
        backoff_delay_s=random.choice((0.05, 1.0)),
        timeout_s=random.choice((0.5, 5.0)),
        order=random.choice(("unordered", "unordered", "key")),
    )
    config = Config((Trigger("t1", policy=policy, sink="simulated"),), dead_letter=random.choice(("http", "file")))
    end = 3.0 * len(amounts)
    return _plan(random, seed, config, _load(random, random.choice((30, 60)), 0.2, end), faults, end)


def _letters(random: Random, seed: int) -> Plan:
    """Dead letters fail while the subscriber rejects what comes."""
    policy = Policy(retry=0, max_in_flight=random.choice((1, 2, 16)))
    letter = random.choice(("", "own"))
    config = Config((Trigger("t1", policy=policy, dead_letter=letter),))
    faults = [
        Fault(0.5, "status", "t1", 30.0, random.choice((400, 503))),
        Fault(2.0, "status", "dead-t1" if letter else "dead", random.choice((5.0, 15.0)), random.choice((500, 503))),
    ]
    return _plan(random, seed, config, _load(random, random.choice((20, 60)), 1.0, 25.0), faults, 30.0)


def _filter(random: Random, seed: int) -> Plan:
    """A filter raises on batches of events, and their dead letters take a while."""
    policy = Policy(max_in_flight=random.choice((1, 2)), retry=random.choice((0, 3)))
    config = Config((Trigger("t1", Filter("simulated", "a"), policy),))
    faults = [Fault(0.5, "filter", "t1", random.choice((3.0, 10.0)))]
    sends = _batches(_load(random, random.choice((4, 8)), 1.0, random.choice((1.1, 8.0))), 10)
    return replace(_plan(random, seed, config, sends, faults, 20.0), network=Network(0.05))


def _retry_after(random: Random, seed: int) -> Plan:
    """A subscriber asks for a while without any request, while more events come."""
    policy = Policy(
        retry=10,
        backoff_delay_s=0.05,
        backoff_max_s=0.5,
        retry_after_max_s=random.choice((5.0, 20.0)),
        max_in_flight=random.choice((2, 16)),
        order=random.choice(("unordered", "unordered", "key")),
    )
    faults = [Fault(2.0, "retry-after", "t1", random.choice((1.0, 10.0)), random.choice((1, 7, 7, 100_000)))]
    config = Config((Trigger("t1", policy=policy),))
    return _plan(random, seed, config, _load(random, random.choice((40, 80)), 1.0, 20.0), faults, 25.0)


def _refusals(random: Random) -> list[Fault]:
    """Of what is written to topics; some last for longer than a request may take."""
    faults, at = [], 2.0
    for _ in range(random.choice((1, 2))):
        lasting, what = random.choice((0.5, 2.5, 8.0)), random.choice((0, 0, 1, 2, 3))
        faults.append(Fault(round(at + random.random(), 3), "kafka-produce", "", lasting, what))
        at += lasting + 2.0
    return faults


def _topic(random: Random, seed: int) -> Plan:
    """The topic of a trigger's sink refuses or loses what is written to it."""
    kafka = Kafka(wire=random.random() < 0.8, request_timeout_s=1.0)
    config = Config((Trigger("t1", policy=Policy(retry=10, timeout_s=5.0), sink="kafka"),), kafka=kafka)
    sends = _load(random, random.choice((30, 80)), 1.0, 18.0, tries=3)
    return _plan(random, seed, config, sends, _refusals(random), 30.0)


def _channel(random: Random, seed: int) -> Plan:
    """The topic of the broker's channel refuses or loses what comes from senders and from another topic."""
    kafka = Kafka(ingress=True, channel=True, wire=random.random() < 0.8, request_timeout_s=1.0)
    config = Config((Trigger("t1", policy=Policy(retry=10, timeout_s=5.0)),), kafka=kafka)
    sends = _batches(_load(random, random.choice((10, 40)), 1.0, 18.0, tries=3), random.choice((1, 3)))
    together = random.choice((5, 10))  # a batch of them is refused, and sent again in halves
    records = _batches(_records(random, "default", 20, 18.0), together)
    sends += tuple(replace(send, mode=RECORD) for send in records)
    faults = [*_refusals(random), Fault(round(random.uniform(14.0, 16.0), 3), "kafka-produce", "", 2.5, 1)]
    return _plan(random, seed, config, sends, faults, 30.0)


def _groups(random: Random, seed: int) -> Plan:
    """The gateway stops while records and events wait, and more records come before it starts again; or is killed, and
    its groups still have their members when it does."""
    kafka = Kafka(ingress=True, channel=True, client=random.choice(("aiokafka", "confluent")))
    config = Config(
        (Trigger("t1", policy=Policy(retry=10, timeout_s=1.5)),),
        (Bridge("b2", Policy(retry=0), True, source="kafka"),),
        drain_timeout_s=0.0,
        kafka=kafka,
    )
    stops = ["restart", random.choice(("restart", "crash", "power"))]
    faults = []
    for at, stop in zip((5.0, 20.0), stops, strict=True):
        faults += [Fault(at - 1.5, "refuse", "t1", 2.0), Fault(at, stop, seconds=random.choice((0.5, 4.0)))]
    sends = _load(random, 30, 1.0, 28.0, tries=3) + _records(random, "default", 30, 28.0)
    sends += _records(random, "b2", 30, 28.0)
    return _plan(random, seed, config, sends, faults, 40.0)


def _messages(random: Random, seed: int) -> Plan:
    """The gateway is killed just after messages have come from an MQTT and a NATS server, or can't store them while the
    NATS consumer goes."""
    config = Config(
        (Trigger("t1", policy=Policy(retry=10)),),
        queues=Queues(("in/a",), "in.>", receive_maximum=random.choice((10, 500))),
        sync=random.choice(("full", "normal")),
    )
    sends, faults = [], []
    for burst in range(6):
        at = 2.0 + 6.0 * burst + random.random()
        count = random.choice((1, 5, 20))
        for mode in QUEUES:
            sends += [Send(round(at, 4), (Event(f"{mode}{burst}.{n}"),), 0, mode=mode) for n in range(count)]
        kind = random.choice(("crash", "power", "disk-error", "disk-full", "disk-full"))
        if kind in ("crash", "power"):
            near = round(at + random.choice((0.0, 0.001, 0.01, 0.02)) * random.random(), 4)
            faults.append(Fault(near, kind, seconds=0.5, amount=random.choice((0, 1, 2, 3))))
        else:
            faults.append(Fault(round(at - 0.01, 4), kind, seconds=2.0, amount=2))
            faults.append(Fault(round(at + random.uniform(0.1, 1.0), 3), "queue-consumer", NATS))
    return _plan(random, seed, config, tuple(sends), faults, 40.0)


def _told(random: Random, seed: int) -> Plan:
    """A reload has to reach all workers, and nothing restarts them later."""
    workers = random.choice((2, 3))
    configs = tuple(
        Config((Trigger("t1", policy=Policy(retry=10, max_in_flight=limit)),), workers=workers) for limit in (16, 3, 2)
    )
    reloads = range(1, random.choice((2, 3)))
    faults = [Fault(round(7.0 * number + random.random(), 3), "reload", amount=number) for number in reloads]
    plan = _plan(random, seed, configs[0], _load(random, 30, 1.0, 18.0, tries=5), faults, 20.0)
    return replace(plan, configs=configs, settle_s=200.0)


def _synced(random: Random, seed: int) -> Plan:
    """A sync of the log fails once, while events come, and the gateway restarts only later."""
    config = Config((Trigger("t1"),), sync=random.choice(("full", "full", "normal")))
    faults = [Fault(round(random.uniform(1.0, 5.0), 3), "sync-once", seconds=15.0, amount=1)]
    return _plan(random, seed, config, _load(random, random.choice((40, 100)), 0.5, 25.0), faults, 30.0)


SITUATIONS: tuple[Callable[[Random, int], Plan], ...] = (
    *(_sink, _letters, _filter, _retry_after, _topic, _channel, _channel, _groups, _messages, _told, _synced),
)
