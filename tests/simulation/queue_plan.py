"""What a plan has of message queues, which are an MQTT server and a NATS server, and plans about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .plan import Config, Fault, Plan, Send

MQTT, NATS = "mqtt", "nats"
QUEUES = (MQTT, NATS)
"""Sends in these modes are messages to the server of this name. In MQTT, `Send.connection` chooses the topic."""
SHARE = 0.3
"""The part of the seeds without another rule whose plans are about queues."""


@dataclass(frozen=True)
class Queues:
    """The ingresses of the broker that fetch from queues, in the order of the config."""

    topics: tuple[str, ...] = ()
    """An MQTT ingress for each, without `client_id`."""
    subject: str = ""
    """The subject that a NATS ingress reads; "" for none."""
    first: bool = True
    """Whether they stand before the broker's other ingresses."""
    receive_maximum: int = 500
    """The most messages that the MQTT server sends without an acknowledgement."""
    max_in_flight: int = 1000
    """The most messages that the NATS ingress has not acknowledged."""
    ack_wait_s: float = 10.0
    """When the NATS server sends a message again."""


def queued(seed: int) -> Plan | None:
    """The plan of a seed that is about queues; None for other seeds."""
    random = Random(f"{seed}/queues")
    if random.random() >= SHARE:
        return None
    plan = random.choice((_reloaded, _vanished, _mixed))(random, seed)
    return replace(
        plan,
        sends=tuple(sorted(plan.sends, key=lambda send: send.at)),
        faults=tuple(sorted(plan.faults, key=lambda fault: fault.at)),
    )


def _messages(random: Random, mode: str, first: int, count: int, end: float) -> list[Send]:
    """Single messages, evenly or in bursts."""
    from .plan import Event, Send

    bursts = [random.uniform(0.5, end) for _ in range(3)] if random.random() < 0.5 else []
    made = []
    for number in range(first, first + count):
        at = random.choice(bursts) + random.random() * 0.05 if bursts else random.uniform(0.5, end)
        event = Event(f"e{number}", random.choice(("a", "b")), size=random.choice((0, 8, 500)))
        made.append(Send(round(at, 4), (event,), random.randrange(3), mode=mode))
    return made


def _drawn(random: Random) -> Queues:
    topics = random.sample(("in/a", "in/b", "in/c"), random.choice((1, 2, 2)))
    return Queues(
        tuple(topics),
        random.choice(("", "in.>")),
        first=random.random() < 0.7,
        receive_maximum=random.choice((1, 10, 500)),
        max_in_flight=random.choice((1, 10, 1000)),
        ack_wait_s=random.choice((2.0, 10.0)),
    )


def _edited(random: Random, queues: Queues) -> Queues:
    """The ingresses after an edit that keeps all topics and the subject: more of them, or another order."""
    topics = list(queues.topics)
    match random.choice(("insert", "insert", "reorder", "swap")):
        case "insert":
            more = [topic for topic in ("in/a", "in/b", "in/c") if topic not in topics]
            if more:
                topics.insert(random.randrange(len(topics) + 1), random.choice(more))
        case "reorder":
            random.shuffle(topics)
        case _:
            return replace(queues, first=not queues.first)
    return replace(queues, topics=tuple(topics))


def _config(queues: Queues, **more: object) -> Config:
    from .plan import Config, Policy, Trigger

    given: dict[str, object] = {"triggers": (Trigger("t1", policy=Policy(retry=10)),), "queues": queues, **more}
    return Config(**given)  # type: ignore[arg-type]


def _reloaded(random: Random, seed: int) -> Plan:
    """Ingresses are inserted and reordered, live and over a restart, while messages come."""
    from .plan import Fault, Plan

    queues = replace(_drawn(random), ack_wait_s=2.0)
    configs = [_config(queues), _config(_edited(random, queues))]
    if random.random() < 0.5:
        configs.append(_config(_edited(random, queues)))
    faults = []
    for _ in range(random.choice((1, 2, 4))):
        at = round(random.uniform(2.0, 25.0), 3)
        faults.append(Fault(at, "reload", amount=random.randrange(len(configs))))
        if random.random() < 0.4:
            stop = random.choice(("restart", "crash"))
            faults.append(Fault(round(at + random.uniform(0.0, 2.0), 3), stop, seconds=random.choice((0.0, 3.0))))
    sends = _messages(random, MQTT, 0, random.choice((20, 60)), 28.0)
    if queues.subject:
        sends += _messages(random, NATS, 1000, random.choice((10, 30)), 28.0)
    return Plan(seed, tuple(configs), tuple(sends), tuple(faults), _network(random), 30.0)


def _vanished(random: Random, seed: int) -> Plan:
    """The NATS consumer goes when messages are under way, often just after a crash."""
    from .plan import Fault, Plan

    queues = Queues(subject="in.>", max_in_flight=random.choice((10, 1000)), ack_wait_s=random.choice((2.0, 10.0)))
    at = round(random.uniform(3.0, 10.0), 3)
    faults = [Fault(round(at + random.uniform(0.0, 4.0), 3), "queue-consumer", NATS)]
    if random.random() < 0.8:
        faults.append(Fault(at, "crash", seconds=random.choice((0.0, 0.5)), amount=random.choice((0, 0, 2, 5))))
    if random.random() < 0.6:  # what is read can't be stored, so it stays open
        lasting = random.choice((1.0, 5.0))
        faults.append(Fault(round(at - random.uniform(0.1, 1.0), 3), "disk-full", seconds=lasting))
    sends = _messages(random, NATS, 0, random.choice((20, 100)), at + 4.0)
    return Plan(seed, (_config(queues),), tuple(sends), tuple(faults), _network(random), 30.0)


def _mixed(random: Random, seed: int) -> Plan:
    """Servers that go, fall silent and cut connections, and a gateway that stops, crashes and freezes."""
    from .plan import Fault, Plan

    queues = _drawn(random)
    faults: list[Fault] = []
    for _ in range(random.choice((1, 3, 8))):
        kind = random.choice(("queue-away", "queue-vanish", "queue-cut", "queue-cut", "queue-consumer"))
        faults.append(
            Fault(
                round(random.uniform(1.0, 40.0), 3),
                kind,
                NATS if kind == "queue-consumer" else random.choice(QUEUES),
                0.0 if kind in ("queue-cut", "queue-consumer") else random.choice((0.5, 5.0, 60.0)),
            )
        )
    for _ in range(random.choice((0, 1, 4))):
        kind = random.choice(("crash", "power", "restart", "freeze", "disk-full", "disk-error", "sync-once"))
        lasting = random.choice((0.5, 3.0, 40.0)) if kind in ("freeze", "disk-full") else random.choice((0.0, 0.5))
        amount = random.choice((0, 0, 2, 8)) if kind in ("crash", "power") else 1
        faults.append(Fault(round(random.uniform(1.0, 40.0), 3), kind, seconds=lasting, amount=amount))
    sends = _messages(random, MQTT, 0, random.choice((10, 60)), 45.0)
    if queues.subject:
        sends += _messages(random, NATS, 1000, random.choice((10, 60)), 45.0)
    config = _config(queues, drain_timeout_s=random.choice((0.0, 5.0)), sync=random.choice(("full", "full", "normal")))
    return Plan(seed, (config,), tuple(sends), tuple(faults), _network(random), 60.0)


def _network(random: Random) -> Network:
    from .plan import Network

    return Network(random.choice((0.0005, 0.005, 0.05)), piece=random.choice((0, 0, 7, 100)))


if TYPE_CHECKING:
    from .plan import Network
