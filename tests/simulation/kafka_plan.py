"""What a plan has of Kafka, and how it is drawn: by generators of its own, after everything else of the plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from .choices import KINDS, Choices

if TYPE_CHECKING:
    from .plan import Bridge, Config, Fault, Plan, Send

RECORD, STRUCTURED, FOREIGN = "record", "record-structured", "record-foreign"
MODES = (RECORD, STRUCTURED, FOREIGN)
"""Sends that are records in a topic: events in binary or structured mode, or no events."""
FIRST = 5000
"""The number in the id of the first event that is sent as a record."""


@dataclass(frozen=True)
class Kafka:
    """The part of a config that is on Kafka, beside bridges and subscribers."""

    ingress: bool = False
    """Whether the broker also reads the topic `in-default`."""
    channel: bool = False
    """Whether the broker's channel is a topic."""
    client: str = "aiokafka"
    not_an_event: str = "dead_letter"
    commit_interval_s: float = 0.5
    drain_s: float = 5.0
    session_timeout_s: float = 10.0
    request_timeout_s: float = 5.0
    max_poll_records: int = 500
    wire: bool = False
    """Whether records are written by the plugin's own producer on aiokafka, in Kafka's protocol."""


def drawn(plan: Plan) -> Plan:
    """The plan, with Kafka or without."""
    random = plan.random("kafka-plan")
    if random.random() < 0.6:
        return plan
    kafka = Kafka(
        ingress=random.random() < 0.6,
        channel=random.random() < 0.3,
        client=random.choice(("aiokafka", "confluent")),
        not_an_event=random.choice(("dead_letter", "dead_letter", "wrap", "drop")),
        commit_interval_s=random.choice((0.1, 0.5, 0.5, 5.0)),
        drain_s=random.choice((0.0, 1.0, 5.0)),
        session_timeout_s=random.choice((6.0, 10.0, 30.0)),
        request_timeout_s=random.choice((1.0, 5.0, 20.0)),
        max_poll_records=random.choice((1, 5, 500)),
    )
    if kafka.client == "aiokafka" and plan.random("kafka-wire").random() < 0.5:
        kafka = replace(kafka, wire=True)
    sinks = {t.name for config in plan.configs for t in config.triggers if random.random() < 0.25}
    bridge = random.random() < 0.6
    ends = random.choice(("http", "http", "kafka"))
    configs = tuple(_with(config, kafka, sinks, _bridge(plan, kafka, bridge, ends)) for config in plan.configs)
    plan = replace(plan, configs=configs, sends=_sends(random, replace(plan, configs=configs)))
    return replace(plan, faults=tuple(sorted((*plan.faults, *_faults(random, plan)), key=lambda fault: fault.at)))


def _bridge(plan: Plan, kafka: Kafka, wanted: bool, ends: str) -> tuple[Bridge, ...]:
    from .plan import Bridge, _policy

    if not wanted:
        return ()
    random = plan.random("kafka-bridge")
    policy = replace(_policy(random), retry=random.choice((0, 0, 2)))
    letter = kafka.not_an_event == "dead_letter" or random.random() < 0.5  # without one, a record would wait for ever
    return (Bridge("b2", policy, letter, source="kafka", sink=ends),)


def _with(config: Config, kafka: Kafka, sinks: set[str], bridges: tuple[Bridge, ...]) -> Config:
    triggers = tuple(replace(t, sink="kafka") if t.name in sinks else t for t in config.triggers)
    old = tuple(replace(b, sink="kafka") if b.name in config.names and len(sinks) > 1 else b for b in config.bridges)
    made: Config = replace(config, kafka=kafka, triggers=triggers, bridges=(*old, *bridges))
    return made


def _sends(random: Random, plan: Plan) -> tuple[Send, ...]:
    """Those of the plan, and some records in the topics that are read."""
    from .plan import Send, _event

    first = plan.configs[0]
    names = ["default"] * (first.kafka is not None and first.kafka.ingress)
    names += [b.name for b in first.bridges if b.source == "kafka"]
    sends = list(plan.sends)
    if not names:
        return tuple(sends)
    for number in range(random.choice((3, 20, 60))):
        own = plan.random(f"record/{number}")
        at = round(own.uniform(0, plan.seconds), 4)
        mode = own.choice((RECORD, RECORD, RECORD, RECORD, STRUCTURED, FOREIGN))
        events = tuple(
            _event(own, f"e{FIRST + number}" + (f".{part}" if part else ""))
            for part in range(1 if mode == FOREIGN else own.choice((1, 1, 5)))
        )
        sends.append(Send(at, events, own.randrange(2), own.choice(names), mode))
    return tuple(sorted(sends, key=lambda send: send.at))


def _faults(random: Random, plan: Plan) -> list[Fault]:
    from .plan import Fault

    names = sorted(name for name in KINDS if name.startswith("kafka-"))
    chosen = random.sample(names, random.choice((0, 1, 3, len(names))))
    return [Fault(*fault) for name in chosen for fault in Choices(random).of_kind(name, plan.seconds)]
