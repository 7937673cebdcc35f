"""Plans about one rule of the Kafka plugin: groups of records that are refused, a bridge that is full, partitions that
move, commits that fail."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from .kafka_plan import RECORD, Kafka
from .plan import Bridge, Config, Event, Fault, Network, Plan, Policy, Send, Trigger

NETWORK = Network(0.0005)


def _records(random: Random, to: str, count: int, *, gap_s: float, begin: float = 1.0) -> tuple[Send, ...]:
    """Records that come one after the other, often with one key."""
    keys = random.choice((("k1",), ("k1", "k2")))
    times = [begin + gap_s * number for number in range(count)]
    return tuple(
        Send(round(at, 4), (Event(f"e{number}", random.choice(("a", "b")), random.choice(keys)),), 0, to, RECORD)
        for number, at in enumerate(times)
    )


def _kafka(random: Random) -> Kafka:
    return Kafka(client=random.choice(("aiokafka", "confluent")), max_poll_records=random.choice((1, 5)))


def refused(random: Random, seed: int) -> Plan:
    """The broker's log refuses a group of records for a moment, and takes the next one."""
    policy = Policy(retry=10, timeout_s=5.0, order=random.choice(("key", "partition")))
    config = Config((Trigger("t1", policy=policy),), kafka=replace(_kafka(random), ingress=True))
    faults = []
    for _ in range(random.choice((3, 6))):
        kind = random.choice(("disk-error", "disk-error", "disk-full"))
        lasting = random.choice((0.1, 0.5)) if kind == "disk-full" else 1.0
        at = round(random.uniform(1.0, 5.0), 3)
        faults.append(Fault(at, kind, seconds=lasting, amount=random.choice((1, 2)) if kind == "disk-error" else 0))
    sends = _records(random, "default", 100, gap_s=0.05)
    return Plan(seed, (config,), sends, tuple(faults), NETWORK, 20.0)


def full(random: Random, seed: int) -> Plan:
    """A bridge holds as many records as it may, since its sink is down."""
    policy = Policy(
        retry=random.choice((0, 3)),
        backoff_delay_s=0.2,
        backoff_max_s=1.0,
        timeout_s=1.5,
        max_in_flight=random.choice((2, 16)),
        order=random.choice(("unordered", "key", "partition")),
    )
    config = Config(bridges=(Bridge("b2", policy, random.random() < 0.3, "kafka"),), kafka=_kafka(random))
    kind = random.choice(("refuse", "silent", "status"))
    away = Fault(0.5, kind, "b2", random.choice((5.0, 15.0)), 503 if kind == "status" else 0)
    sends = _records(random, "b2", random.choice((40, 80)), gap_s=random.choice((0.005, 0.05)))
    return Plan(seed, (config,), sends, (away,), NETWORK, 20.0, most_held=random.choice((17, 20, 30)))


def moved(random: Random, seed: int) -> Plan:
    """Partitions of a bridge move while records wait for its slow sink."""
    policy = Policy(
        max_in_flight=random.choice((1, 2)),
        retry=0,
        timeout_s=5.0,
        order=random.choice(("unordered", "key", "partition")),
    )
    kafka = replace(_kafka(random), drain_s=random.choice((0.0, 1.0)))
    config = Config(bridges=(Bridge("b2", policy, True, "kafka"),), kafka=kafka)
    faults = [Fault(0.5, "late", "b2", 40.0, random.choice((400, 600)))]
    for begin in (2.0, 15.0):
        at = round(begin + random.random(), 3)
        faults.append(Fault(at, "kafka-move", "0", random.choice((3.0, 8.0)), random.choice((1, 2, 3))))
    sends = _records(random, "b2", 40, gap_s=0.02)
    return Plan(seed, (config,), sends, tuple(faults), NETWORK, 60.0)


def uncommitted(random: Random, seed: int) -> Plan:
    """Commits fail while the last records are delivered, and nothing comes after them."""
    kafka = replace(_kafka(random), ingress=random.random() < 0.5, commit_interval_s=random.choice((0.1, 0.5, 1.0)))
    config = Config((Trigger("t1"),), (Bridge("b2", Policy(retry=0), True, "kafka"),), kafka=kafka)
    faults = [Fault(random.choice((0.5, 1.5, 3.0)), "kafka-commit", "", 15.0, random.choice((0, 0, 1)))]
    if random.random() < 0.3:
        faults.append(Fault(12.0, "crash", seconds=0.5))
    sends = _records(random, random.choice(config.readers), random.choice((5, 30)), gap_s=0.1)
    return Plan(seed, (config,), sends, tuple(faults), NETWORK, 25.0)
