"""Everything that a run of the simulated world depends on: the gateway's configs, what is sent, and the faults.

A plan is data, goes to and from JSON, and can be shrunk: any send and any fault may be left out, and every number may
be made smaller, and what remains is a plan that makes sense. Nothing else is random except by `seed`: latencies, the
draws of the gateway's waits, the sizes of pieces. Each of these draws from a generator of its own (`Plan.random`), so
leaving an entry out does not change what the others draw.

Times are seconds of simulated time since the world began.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from hashlib import sha256
from random import Random
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from .choices import KINDS, Choices
from .kafka_plan import MODES, Kafka
from .kafka_plan import drawn as with_kafka
from .queue_plan import QUEUES, Queues

__all__ = [
    "KINDS", "MODES", "QUEUES", "Bridge", "Config", "Event", "Fault", "Filter", "Kafka", "Network", "Once", "Operation",
    "Plan", "Policy", "Queues", "Schedule", "Send", "Trigger",
]  # fmt: skip

SOURCE = "/sim"
DUE = "deliverat"
EPOCH_S = 1_800_000_000
"""What the gateway's clock shows when the world begins (Unix time), until a fault sets it."""
T = TypeVar("T")


@dataclass(frozen=True)
class Event:
    """One event of a workload. `id` is unique in a plan."""

    id: str
    type: str = "a"
    key: str = ""
    """The attribute `partitionkey`; "" for none."""
    size: int = 8
    """Bytes of data; 0 for an event without data."""
    extra: tuple[tuple[str, str], ...] = ()
    """More attributes, such as `subject`."""

    @property
    def attributes(self) -> dict[str, str]:
        """All attributes as text, in the order in which they are sent."""
        kind = {"datacontenttype": "text/plain"} if self.size else {}
        key = {"partitionkey": self.key} if self.key else {}
        own = {"specversion": "1.0", "id": self.id, "source": SOURCE, "type": self.type}
        return {**own, **kind, **key, **dict(self.extra)}

    @property
    def data(self) -> bytes:
        """The data: ASCII that is different for each id."""
        text = sha256(self.id.encode()).hexdigest().encode()
        return (text * (self.size // len(text) + 1))[: self.size]


@dataclass(frozen=True)
class Send:
    """A request of a sender. Requests of one connection go out in their order, each after the answer to the one before;
    `at` is the earliest time. A sender waits 60 s for an answer, then closes its connection and opens another."""

    at: float
    events: tuple[Event, ...]
    connection: int = 0
    to: str = "default"
    """The broker, or a bridge's name."""
    mode: str = "binary"
    """binary, structured, or batch; more than one event needs batch. One of `kafka_plan.MODES`: not a request, but a
    record for each event in the topic that the broker or bridge reads; those without a key go to partition
    `connection`. One of `queue_plan.QUEUES`: a message for each event."""
    tries: int = 1
    """How often it is sent at most: again after 429, 503 or no answer, as the table of delivery.md says."""


@dataclass(frozen=True)
class Filter:
    """A trigger's filter, for the config and, independently, for the oracle."""

    kind: str = "all"
    """all; type: the type equals `value`; prefix: it begins with it; not: it doesn't equal it; sql: `type = value` in
    CESQL; key: the attribute `partitionkey` equals it; simulated: as type, by the plugin that faults make fail."""
    value: str = ""

    def wants(self, event: Event) -> bool:
        """Whether the filter matches the event, if it raises nothing."""
        match self.kind:
            case "type" | "sql" | "simulated":
                return event.type == self.value
            case "prefix":
                return event.type.startswith(self.value)
            case "not":
                return event.type != self.value
            case "key":
                return event.key == self.value
            case _:
                return True


@dataclass(frozen=True)
class Policy:
    """`delivery` of a trigger or bridge, with the names and the meaning of the config."""

    retry: int = 3
    backoff: str = "exponential"
    backoff_delay_s: float = 0.2
    backoff_max_s: float = 5.0
    timeout_s: float = 5.0
    retry_after_max_s: float = 20.0
    max_in_flight: int = 16
    rate_per_s: float | None = None
    order: str = "unordered"
    retry_for: float | None = None
    """With it, `retry` is the most that may be."""
    hold_while_down: bool = False
    """Not drawn by `of`: see `together_plan`."""


@dataclass(frozen=True)
class Trigger:
    """A trigger of the broker `default`. Its subscriber is a server of the same name in the simulated network."""

    name: str
    filter: Filter = Filter()
    policy: Policy = Policy()
    dead_letter: str = ""
    """"": the broker's; own: a server of its own with the name `dead-NAME`."""
    earliest: bool = False
    sink: str = "http"
    """http; kafka: a topic; simulated: a sink of the simulation's plugin, which faults make raise, hang, or call `done`
    wrongly."""
    mapper: str = ""
    """The key mapper of `order: key`: "" for the default, simulated for the plugin that faults make fail."""
    batch: int = 0
    """How many events a request has at most; 0 for single events. Not drawn by `of`: see `together_plan`."""
    delay_s: float = 0.0
    """How much later it gets events."""
    deliver_at: bool = False
    """Whether events say when they are due, in the attribute `DUE`."""


@dataclass(frozen=True)
class Schedule:
    """A source of the broker `default` that makes events of the type `tick`, `every` so many seconds."""

    name: str
    every: int
    missed: str = "last"
    subject: str = ""
    """The attribute `subject` of its events; with another one, a reload replaces the source."""


@dataclass(frozen=True)
class Bridge:
    """A bridge to a server of the same name."""

    name: str
    policy: Policy = Policy(retry=0)
    dead_letter: bool = False
    """Whether it has one: a server with the name `dead-NAME`."""
    source: str = "http"
    """http, or kafka: a topic."""
    sink: str = "http"
    """http, or kafka: a topic in place of the server."""


@dataclass(frozen=True)
class Once:
    """`deduplicate` of the broker."""

    window_s: int
    max_keys: int = 1000


@dataclass(frozen=True)
class Config:
    """A gateway's config: the broker `default` with the channel `log`, its triggers, and bridges."""

    triggers: tuple[Trigger, ...] = ()
    bridges: tuple[Bridge, ...] = ()
    sync: str = "full"
    dead_letter: str = "http"
    """The broker's: http, a server with the name `dead`; file, the gateway's own file."""
    observer: bool = False
    """Whether there is an observer, which faults make raise."""
    codec: str = ""
    """The codec of the broker's ingress: "" for the default, simulated for one that faults make fail."""
    drain_timeout_s: float = 5.0
    authenticator: bool = False
    """Whether the broker's ingress has an authenticator, which faults make raise, hang or refuse."""
    kafka: Kafka | None = None
    """What of it is on Kafka; None only if nothing is."""
    queues: Queues | None = None
    """What the broker fetches from queues; None if nothing."""
    tls: bool = False
    """Whether the listener and the servers speak TLS; the same in all configs of a plan."""
    workers: int = 1
    """How many workers there are; the same in all configs of a plan."""
    once: Once | None = None
    """None in all configs of a plan, or in none: see `once_plan`."""
    schedules: tuple[Schedule, ...] = ()
    """The same names and times in all configs of a plan."""
    deduplicate: bool = False
    """Whether the broker stores an event with the same source and id once; the same in all configs of a plan."""
    max_age_s: float = 0.0
    """Retention deletes what is older than this and was delivered; 0 for no retention."""

    @property
    def names(self) -> tuple[str, ...]:
        """The servers at which the gateway delivers: subscribers, bridges' sinks and dead letters."""
        found = [t.name for t in self.triggers] + [b.name for b in self.bridges]
        found += [f"dead-{t.name}" for t in self.triggers if t.dead_letter == "own"]
        found += [f"dead-{b.name}" for b in self.bridges if b.dead_letter]
        return (*found, "dead") if self.dead_letter == "http" else tuple(found)

    @property
    def readers(self) -> tuple[str, ...]:
        """The broker and the bridges that read a topic."""
        broker = ("default",) if self.kafka is not None and self.kafka.ingress else ()
        return (*broker, *(b.name for b in self.bridges if b.source == "kafka"))

    @property
    def reads(self) -> tuple[str, ...]:
        """The topics of sources."""
        return tuple(f"in-{name}" for name in self.readers)

    @property
    def writes(self) -> tuple[str, ...]:
        """The topics of sinks."""
        sinks = [(t.name, t.sink) for t in self.triggers] + [(b.name, b.sink) for b in self.bridges]
        return tuple(f"out-{name}" for name, sink in sinks if sink == "kafka")

    @property
    def groups(self) -> tuple[str, ...]:
        """The consumer groups."""
        channel = self.kafka is not None and self.kafka.channel
        triggers = (f"tidegate.default.{t.name}" for t in self.triggers) if channel else ()
        return (*(f"tidegate.{name}" for name in self.readers), *triggers)


@dataclass(frozen=True)
class Fault:
    """Something that happens at a time, or lasts for `seconds`. `choices.KINDS` says what each kind does, and what
    `target`, `seconds` and `amount` mean for it."""

    at: float
    kind: str
    target: str = ""
    seconds: float = 0.0
    amount: int = 0


@dataclass(frozen=True)
class Replay:
    """At a time, an operator asks for the events that were accepted between two others, for one trigger; and asks again
    each second until the gateway says that it has begun."""

    at: float
    trigger: str
    since: float
    until: float
    rate: float = 0.0
    order: str = ""


@dataclass(frozen=True)
class Rewind:
    """At a time, an operator sets a trigger back to another one; and asks again each second until the gateway says that
    it has gone back."""

    at: float
    trigger: str
    to: float


@dataclass(frozen=True)
class Operation:
    """At a time, an operator asks to cancel an event that waits for a trigger, or to deliver it now."""

    at: float
    what: str
    """cancel or now."""
    trigger: str
    id: str


@dataclass(frozen=True)
class Network:
    """What the network is like when it is well."""

    latency_s: float = 0.001
    """One way, for each piece; a connection takes two to open."""
    jitter_s: float = 0.0
    """Added to the latency, drawn for each piece. Pieces of a connection never overtake each other."""
    piece: int = 0
    """The most bytes that arrive at once; 0 for no limit."""


@dataclass(frozen=True)
class Plan:
    """A run. `configs[0]` is the first config; the fault `reload` changes to another one. Sends and faults are in order
    of time. After `seconds` all faults are over, and the gateway has `settle_s` to come to rest."""

    seed: int
    configs: tuple[Config, ...] = (Config(),)
    sends: tuple[Send, ...] = ()
    faults: tuple[Fault, ...] = ()
    network: Network = Network()
    seconds: float = 60.0
    settle_s: float = 600.0
    replays: tuple[Replay, ...] = ()
    rewinds: tuple[Rewind, ...] = ()
    """Neither is drawn by `of`: see `replay_plan` and `rewind_plan`."""
    operations: tuple[Operation, ...] = ()
    """Not drawn by `of`, as delays and schedules are not: see `later_plan`."""
    most_held: int = 0
    """How many events one trigger or bridge holds at most, if not as many as the product lets it."""

    @staticmethod
    def of(seed: int) -> Plan:
        """Draws a plan."""
        from .focus import focused
        from .queue_plan import queued
        from .rare_plan import rare
        from .reload_plan import reloading
        from .tls_plan import secured
        from .worker_plan import of_workers

        for about in (focused, rare, queued, secured, reloading, of_workers):
            if (plan := about(seed)) is not None:
                return plan
        return _drawn(seed)

    def random(self, name: str) -> Random:
        """The generator of something that has this name."""
        return Random(f"{self.seed}/{name}")

    @property
    def later(self) -> bool:
        """Whether it has delays or schedules."""
        return any(c.schedules or any(t.delay_s or t.deliver_at for t in c.triggers) for c in self.configs)

    @property
    def events(self) -> Mapping[str, Event]:
        """All events that are sent, by their ids."""
        return {event.id: event for send in self.sends for event in send.events}

    def json(self) -> str:
        """The plan as text that `Plan.read` reads."""
        return json.dumps(_lean(self), separators=(",", ":"))

    @staticmethod
    def read(text: str) -> Plan:
        """The plan that `json` wrote. Raises `ValueError`."""
        plan: Plan = _made(Plan, json.loads(text))
        return plan


def _lean(value: Any) -> Any:
    """As JSON, without what has its default."""
    if is_dataclass(value) and not isinstance(value, type):
        kept = [f.name for f in fields(value) if getattr(value, f.name) != f.default]
        return {name: _lean(getattr(value, name)) for name in kept}
    return [_lean(item) for item in value] if isinstance(value, tuple) else value


_HINTS: dict[type, dict[str, Any]] = {}


def _made(kind: Any, value: Any) -> Any:
    origin = get_origin(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        if kind not in _HINTS:
            _HINTS[kind] = get_type_hints(kind)
        if unknown := set(value) - set(_HINTS[kind]):
            raise ValueError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
        return kind(**{name: _made(_HINTS[kind][name], item) for name, item in value.items()})
    if origin is tuple:
        inner = get_args(kind)
        kinds = [inner[0]] * len(value) if inner[1:] == (...,) else inner
        return tuple(_made(k, item) for k, item in zip(kinds, value, strict=True))
    if origin in (Union, types.UnionType):
        return None if value is None else _made(next(k for k in get_args(kind) if k is not type(None)), value)
    return kind(value) if kind is float else value


# -- drawing ----------------------------------------------------------------------------------------------------------


def _drawn(seed: int) -> Plan:
    random = Random(f"{seed}/plan")
    choices = Choices(random)
    seconds = round(random.choice((5.0, 20.0, 60.0, 180.0)) * random.uniform(0.5, 1.5), 3)
    first = _config(random)
    configs = [first]
    while len(configs) < 3 and random.random() < 0.5:
        configs.append(_changed(random, first))
    network = Network(
        latency_s=random.choice((0.0, 0.0005, 0.005, 0.05)),
        jitter_s=random.choice((0.0, 0.0, 0.002, 0.1)),
        piece=random.choice((0, 0, 0, 1460, 100, 7)),
    )
    plan = Plan(seed, tuple(configs), network=network, seconds=seconds)
    sends = _sends(random, plan)
    made = choices.faults(seconds, [c.names for c in configs], [t.name for t in first.triggers], len(configs))
    own = plan.random("authenticator")
    if own.random() < 0.25:
        plan = replace(plan, configs=tuple(replace(config, authenticator=True) for config in plan.configs))
        made += Choices(own).of_kind("authenticator", seconds)
    faults = tuple(Fault(*fault) for fault in sorted(made))
    return _by_time(with_kafka(replace(plan, sends=sends, faults=faults)))


BY_TIME = 0.25
"""The part of the plans about everything that has triggers with `retry_for`."""


def _by_time(plan: Plan) -> Plan:
    """The plan with `retry_for` in some of its triggers, in the same ones in all configs, and with subscribers that are
    down for long; most plans stay as they are. `retry` then is out of the way, or ends first for some events."""
    own = plan.random("retry-for")
    if own.random() >= BY_TIME:
        return plan
    chosen = {
        name: (own.choice((0.0, 2.0, 10.0, 30.0, 100.0)), own.choice((None, 1000, 1000)))
        for name in sorted({trigger.name for config in plan.configs for trigger in config.triggers})
        if own.random() < 0.8
    }

    down = [
        Fault(
            round(own.uniform(0, 0.3 * plan.seconds), 3),
            kind := own.choice(("status", "status", "refuse")),
            name,
            plan.seconds,  # to the end
            own.choice((500, 503)) if kind == "status" else 0,
        )
        for name in chosen
        if own.random() < 0.7
    ]

    def timed(trigger: Trigger) -> Trigger:
        if trigger.name not in chosen:
            return trigger
        retry_for, retry = chosen[trigger.name]
        policy = replace(trigger.policy, retry_for=retry_for, retry=trigger.policy.retry if retry is None else retry)
        return replace(trigger, policy=policy)

    configs = tuple(replace(c, triggers=tuple(map(timed, c.triggers))) for c in plan.configs)
    faults = sorted((*plan.faults, *down), key=lambda fault: fault.at)
    return replace(plan, configs=configs, faults=tuple(faults))


TYPES = ("a", "a.b", "b", "c")
KEYS = ("", "k1", "k2", "k3")


def _policy(random: Random) -> Policy:
    return Policy(
        retry=random.choice((0, 1, 3, 3, 10)),
        backoff=random.choice(("exponential", "exponential", "linear")),
        backoff_delay_s=random.choice((0.0, 0.05, 0.2, 1.0)),
        backoff_max_s=random.choice((0.5, 5.0, 30.0)),
        timeout_s=random.choice((0.5, 1.5, 5.0, 30.0)),
        max_in_flight=random.choice((1, 2, 16, 64)),
        rate_per_s=random.choice((None, None, None, 5.0, 50.0)),
        order=random.choice(("unordered", "unordered", "partition", "key", "key")),
    )


def _filter(random: Random) -> Filter:
    kind = random.choice(("all", "all", "type", "prefix", "not", "sql", "key", "simulated"))
    if kind == "all":
        return Filter()
    return Filter(kind, random.choice(KEYS[1:] if kind == "key" else TYPES))


def _trigger(random: Random, name: str) -> Trigger:
    policy = _policy(random)
    return Trigger(
        name,
        _filter(random),
        policy,
        dead_letter=random.choice(("", "", "own")),
        earliest=random.random() < 0.3,
        sink=random.choice(("http", "http", "http", "simulated")),
        mapper="simulated" if policy.order == "key" and random.random() < 0.3 else "",
    )


def _config(random: Random) -> Config:
    triggers = tuple(_trigger(random, f"t{number}") for number in range(1, random.randint(1, 4) + 1))
    bridges: tuple[Bridge, ...] = ()
    if random.random() < 0.3:
        policy = replace(_policy(random), retry=random.choice((0, 0, 2)))
        bridges = (Bridge("b1", policy, random.random() < 0.5),)
    return Config(
        triggers,
        bridges,
        sync=random.choice(("full", "full", "normal")),
        dead_letter=random.choice(("http", "http", "file")),
        observer=random.random() < 0.3,
        codec="simulated" if random.random() < 0.15 else "",
        drain_timeout_s=random.choice((0.0, 2.0, 20.0)),
    )


def _changed(random: Random, config: Config) -> Config:
    """Another config of the same gateway."""
    triggers = list(config.triggers)
    number = random.randrange(len(triggers))
    match random.choice(("policy", "policy", "filter", "dead_letter", "remove", "add")):
        case "policy":
            triggers[number] = replace(triggers[number], policy=_policy(random))
        case "filter":
            triggers[number] = replace(triggers[number], filter=_filter(random))
        case "dead_letter":
            config = replace(config, dead_letter="file" if config.dead_letter == "http" else "http")
        case "remove":
            del triggers[number]
        case "add":
            triggers.append(_trigger(random, "added"))
    return replace(config, triggers=tuple(triggers))


def _sends(random: Random, plan: Plan) -> tuple[Send, ...]:
    names = ["default"] * 4 + [b.name for b in plan.configs[0].bridges]
    requests = random.choice((5, 30, 60, 120))
    connections = random.choice((1, 3, 8))
    bursts = random.random() < 0.4
    centres = [random.uniform(0, plan.seconds) for _ in range(3)]
    made: list[Send] = []
    for number in range(requests):
        own = plan.random(f"send/{number}")
        at = own.choice(centres) + own.random() * 0.05 if bursts else own.uniform(0, plan.seconds)
        mode = own.choice(("binary", "binary", "structured", "batch"))
        count = own.choice((1, 2, 5)) if mode == "batch" else 1
        events = tuple(_event(own, f"e{number}" + (f".{part}" if count > 1 else "")) for part in range(count))
        made.append(
            Send(round(at, 4), events, own.randrange(connections), own.choice(names), mode, own.choice((1, 1, 3)))
        )
    return tuple(sorted(made, key=lambda send: send.at))


def _event(random: Random, name: str) -> Event:
    size = random.choice((0, 8, 8, 100, 100, 2000, 70_000 if random.random() < 0.1 else 500))
    extra = (("subject", "größe"),) if random.random() < 0.1 else ()
    return Event(name, random.choice(TYPES), random.choice(KEYS), size, extra)
