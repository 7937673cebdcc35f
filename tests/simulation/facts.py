"""What a history says, indexed for the oracle: attempts with their answers, dead letters, lives, configs in force.

The oracle sees the world from outside, so it does not know when the gateway began an attempt or read an answer, only
when a server read the request and wrote the answer. `lag` is the longest that lies between the two in a network that
is well; where a fault disturbed the network, the gateway or the server (`calm`), most promises can't be checked.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from . import kafka_facts
from .choices import KINDS, SERVER
from .decoding import attributes_of_all
from .history import (
    Answered,
    Arrived,
    Ended,
    Happened,
    Heard,
    History,
    Letter,
    Logged,
    Over,
    Partial,
    Paused,
    Published,
    Refused,
    Reloaded,
    Replied,
    Sent,
    Started,
    Starting,
    Status,
    SyncFailed,
)
from .kafka_facts import KafkaFacts
from .plan import Config, Event, Plan, Policy, Trigger
from .queue_plan import MQTT, NATS

FACTS = (
    *("knativeerrordest", "knativeerrorcode", "knativeerrordata", "tidegatetrigger", "tidegatebroker"),
    "tidegateattempts",
    *("tidegatefirst", "tidegatelast", "tidegatestage", "tidegatereason"),
)
"""What a dead letter adds."""
EVER = 1e12
AGAIN = 20
"""How often an event may be read from Kafka again, if anything went wrong; there is no limit."""
DISK = frozenset(kind for kind in KINDS if kind.startswith(("disk", "sync")))
SYNCS = ("sync-error", "sync-once")
"""Faults after which the gateway takes nothing until a restart."""
STOPS = frozenset(("crash", "power", "restart"))
LIKE_AN_ANSWER = frozenset(("status", "retry-after", "mixed", "hang", "poison", "parts"))
"""Faults of a server that leave the network well, at least for those events that get an answer."""


@dataclass(eq=False)
class Attempt:
    """A request that a server read, or a call of a simulated sink."""

    arrived: Arrived
    attributes: dict[str, str]
    replied: Replied | None = None
    generation: int = 0
    """The life of the gateway that made it; a number below 0 of its own if it may be the one before."""
    place: int = 0
    """Its place among the events of a batch."""
    together: int = 1
    """How many events the request has."""

    @property
    def at(self) -> float:
        return self.arrived.at

    @property
    def id(self) -> str:
        return self.attributes.get("id", "")

    @property
    def status(self) -> int | None:
        """The status that the server wrote, in whole; in a 207 that of this event, 0 if it has none."""
        if self.replied is None:
            return None
        return self.replied.statuses[self.place] if self.replied.statuses else self.replied.status

    @property
    def took(self) -> bool:
        """Whether the server took the event."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def answered(self) -> float:
        """When the server answered; never if it did not."""
        return self.replied.at if self.replied is not None and self.replied.status is not None else EVER


@dataclass(frozen=True)
class Life:
    """From a start of the gateway to its end (`how`: stop, crash, power; "" if it ran to the end)."""

    generation: int
    begin: float
    end: float
    how: str


@dataclass
class Span:
    """A fault, from its beginning to its end."""

    begin: float
    end: float
    kind: str
    target: str
    amount: int


@dataclass
class Copy:
    """One sending of an event. `stored` is True after a 2xx, False after a refusal or if not all of it was sent, None
    if nobody knows."""

    begin: float
    end: float
    stored: bool | None
    status: int | None
    send: int
    place: int = 0
    record: bool = False
    """Whether it may have been read from a topic, rather than sent to the gateway."""


@dataclass
class Facts:
    """The indexed history of a run of a plan."""

    plan: Plan
    history: History
    attempts: list[Attempt] = field(default_factory=list)
    by_server: dict[str, list[Attempt]] = field(default_factory=lambda: defaultdict(list))
    spans: list[Span] = field(default_factory=list)
    lives: dict[int, Life] = field(default_factory=dict)
    copies: dict[str, list[Copy]] = field(default_factory=lambda: defaultdict(list))
    letters: list[tuple[float, Letter, dict[str, str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.end = self.history.records[-1].at if self.history.records else 0.0
        network = self.plan.network
        self._policies: dict[tuple[str, float, float], list[Policy]] = {}
        self.lag = 6 * (network.latency_s + network.jitter_s) + 0.02
        self.kafka = KafkaFacts(self.plan, self.history)
        self._index()
        self._index_kafka()
        self._index_queues()

    # -- indexes ----------------------------------------------------------------------------------------------------

    def _index(self) -> None:
        by_number: dict[int, list[Attempt]] = {}
        sent: dict[tuple[int, int], Sent] = {}
        answers: dict[tuple[int, int], Answered] = {}
        begun: list[tuple[float, Any]] = []
        starts: dict[int, float] = {}
        ends: dict[int, Ended] = {}
        self.refused: dict[str, list[float]] = defaultdict(list)
        self.partial: dict[str, list[float]] = defaultdict(list)
        self.read: dict[int, float] = {}
        """When the gateway read the answers to arrivals."""
        self.failed_syncs: list[float] = []
        self.statuses: list[Status] = []
        self.logged: list[Logged] = []
        self.reloads: list[tuple[float, float]] = []
        asked: list[float] = []  # a reload waits for those before it
        self._configs: list[tuple[float, int]] = [(0.0, 0)]
        self._paused: list[tuple[float, tuple[str, ...]]] = []
        for record in self.history.records:
            match record:
                case Arrived():
                    events = attributes_of_all(record)
                    made = [Attempt(record, a, place=n, together=len(events)) for n, a in enumerate(events)]
                    by_number[record.number] = made
                    self.attempts += made
                    self.by_server[record.server] += made
                case Replied():
                    for attempt in by_number[record.number]:
                        attempt.replied = attempt.replied or record
                case Heard():
                    self.read[record.number] = record.at
                case SyncFailed():
                    self.failed_syncs.append(record.at)
                case Sent():
                    sent[record.send, record.attempt] = record
                case Answered():
                    answers[record.send, record.attempt] = record
                case Happened():
                    begun.append((record.at, record.fault))
                    self.spans.append(
                        Span(record.at, record.at, record.fault.kind, record.fault.target, record.fault.amount)
                    )
                    if record.fault.kind in ("reload", "bad-config") and record.effect != "nothing":
                        asked.append(record.at)
                    if record.fault.kind not in STOPS and record.effect != "nothing":
                        self.spans[-1].end = max(record.at, min(record.at + record.fault.seconds, self.plan.seconds))
                case Over():
                    for number, (at, fault) in enumerate(begun):
                        if fault == record.fault and at <= record.at:
                            self.spans[number].end = max(record.at, at)
                            break
                case Starting():
                    # it may accept and deliver events before its start is complete, and need not live that long
                    self._configs.append((max((e.at for e in ends.values()), default=0.0), record.config))
                case Started():
                    asked.clear()
                    starts[record.generation] = record.at
                case Ended():
                    ends[record.generation] = record
                case Reloaded():
                    if not record.faults:
                        self._configs.append((record.at, record.config))
                    self.reloads.append((asked.pop(0) if asked else record.at, record.at))
                case Paused():
                    self._paused.append((record.at, record.triggers))
                case Refused():
                    self.refused[record.server].append(record.at)
                case Partial():
                    self.partial[record.server].append(record.at)
                case Letter():
                    self.letters.append((record.at, record, dict(record.attributes)))
                case Status():
                    self.statuses.append(record)
                case Logged():
                    self.logged.append(record)
        self.cuts = [
            end.at for end in ends.values() if end.how == "power"
        ]  # of power, also before a start was complete
        for generation, begin in starts.items():
            ended = ends.get(generation)
            self.lives[generation] = Life(generation, begin, ended.at if ended else EVER, ended.how if ended else "")
        for attempt in self.attempts:
            begin = starts.get(attempt.arrived.generation, EVER)
            sure = attempt.arrived.generation == 1 or attempt.at >= begin + self.lag
            attempt.generation = attempt.arrived.generation if sure else -attempt.arrived.number - 1
        for key, one in sorted(sent.items()):
            answer = answers.get(key)
            status = answer.status if answer is not None else None
            for place, event in enumerate(self.plan.sends[one.send].events):
                copy = Copy(one.at, answer.at if answer else EVER, _stored(one, status), status, one.send, place)
                self.copies[event.id].append(copy)

    def _index_kafka(self) -> None:
        """Events that are read from Kafka may be read again whenever something goes wrong."""
        again = AGAIN if kafka_facts.troubled(self) else 0
        for to in ("default", *self.bridges):
            gone = {*self.kafka.taken, *self.dead_of, *self.letters_of}  # elsewhere, or refused by the broker's topic
            sure = {(r.send, r.id) for r in self.kafka.sent(to) if (to, r.id) not in gone}
            for id, found in self.kafka.of.get(f"in-{to}", {}).items():
                for r in found:
                    stored = True if (r.send, id) in sure else None
                    self.copies[id] += [Copy(r.at, EVER, stored, None, r.send, 0, True)]
                    self.copies[id] += [Copy(r.at, EVER, None, None, r.send, 0, True)] * again
        if again and kafka_facts.channel(self.plan.configs):
            for copies in self.copies.values():
                if any(c.stored is not False and self.plan.sends[c.send].to == "default" for c in copies):
                    first = copies[0]
                    copies += [Copy(first.begin, EVER, None, None, first.send, 0, True)] * again

    # -- what was going on --------------------------------------------------------------------------------------------

    def life(self, at: float) -> Life | None:
        """The life at this time."""
        return next((life for life in self.lives.values() if life.begin <= at <= life.end), None)

    def faults(self, kinds: Iterable[str], begin: float, end: float, target: str | None = None) -> bool:
        """Whether a fault of these kinds (at this target) was on in this time."""
        return any(
            s.kind in kinds and s.begin <= end and s.end >= begin and target in (None, s.target) for s in self.spans
        )

    def ran(self, begin: float, end: float) -> float:
        """Seconds of this time in which the gateway was not frozen."""
        left, until = end - begin, begin
        for span in sorted((s for s in self.spans if s.kind == "freeze"), key=lambda s: s.begin):
            frozen = min(span.end, end) - max(span.begin, until)
            if frozen > 0:
                left -= frozen
                until = min(span.end, end)
        return left

    def calm(self, server: str, begin: float, end: float) -> bool:
        """Whether nothing disturbed the server's network, and the gateway ran, from `begin` to `end`."""
        for s in self.spans:
            if s.begin > end + self.lag or s.end < begin - self.lag:
                continue
            if s.kind in ("freeze", "clock", *STOPS):
                return False
            if s.target == server and KINDS[s.kind].target == SERVER and s.kind not in LIKE_AN_ANSWER:
                return False
            if s.kind == "sink" and s.target == server:
                return False
            if s.kind.startswith("kafka-") and server in self.topics:
                return False
        life = self.life(begin)
        return life is not None and life.begin <= begin - self.lag and end + self.lag <= life.end

    def changing(self, begin: float, end: float) -> bool:
        """Whether a reload was going on in this time."""
        return any(a - self.lag <= end and b + self.lag >= begin for a, b in self.reloads)

    def configs(self, begin: float, end: float) -> list[Config]:
        """All configs that were in force at some moment of this time."""
        found: list[int] = []
        for number, (at, config) in enumerate(self._configs):
            until = self._configs[number + 1][0] if number + 1 < len(self._configs) else EVER
            if at <= end and until >= begin and config not in found:
                found.append(config)
        return [self.plan.configs[c] for c in found]

    def triggers(self, name: str, begin: float, end: float) -> list[Trigger | None]:
        """The trigger of this name in each of these configs; None in those that lack it."""
        return [next((t for t in c.triggers if t.name == name), None) for c in self.configs(begin, end)]

    def policies(self, name: str, begin: float = 0.0, end: float = EVER) -> list[Policy]:
        """All policies of a trigger or bridge in this time."""
        if (known := self._policies.get((name, begin, end))) is not None:
            return known
        found = self._policies[name, begin, end] = list[Policy]()
        for config in self.configs(begin, end):
            found += [t.policy for t in config.triggers if t.name == name and t.policy not in found]
            found += [b.policy for b in config.bridges if b.name == name and b.policy not in found]
        return found

    def paused(self, name: str, begin: float, end: float) -> bool:
        """Whether the trigger was paused at some moment of this time."""
        for number, (at, names) in enumerate(self._paused):
            until = self._paused[number + 1][0] if number + 1 < len(self._paused) else EVER
            if name in names and at <= end and until >= begin:
                return True
        return False

    @cached_property
    def names(self) -> list[str]:
        """The names of all triggers that ever were in force."""
        return sorted({t.name for c in self.configs(0, EVER) for t in c.triggers})

    @cached_property
    def bridges(self) -> list[str]:
        """The names of all bridges."""
        return sorted({b.name for c in self.configs(0, EVER) for b in c.bridges})

    @cached_property
    def topics(self) -> frozenset[str]:
        """The triggers and bridges whose sinks are topics."""
        return frozenset(topic.removeprefix("out-") for config in self.plan.configs for topic in config.writes)

    @cached_property
    def from_kafka(self) -> frozenset[str]:
        """The bridges that read topics."""
        return frozenset(b.name for config in self.plan.configs for b in config.bridges if b.source == "kafka")

    @cached_property
    def events(self) -> dict[str, Event]:
        return {**self.plan.events, **self.kafka.foreign}

    @cached_property
    def to(self) -> dict[str, str]:
        """Where each event was sent: the broker, or a bridge."""
        return {**{e.id: send.to for send in self.plan.sends for e in send.events}, **self.kafka.to}

    @cached_property
    def forgetful(self) -> list[float]:
        """Losses of power while `sync: normal` was in force: what was accepted before may be missing."""
        return [at for at in self.cuts if any(c.sync != "full" for c in self.configs(0, at))]

    @cached_property
    def lies(self) -> list[tuple[float, float, float]]:
        """Losses of power after the disk had lied: what was accepted from the first time to the second may be missing
        if the power was lost at the third. All of it, if the gateway started or stopped meanwhile: it moves the log
        from file to file then, and the names of new files are lies, too."""
        found = []
        for span in self.spans:
            if span.kind != "disk-lies":
                continue
            moved = [at for life in self.lives.values() for at in (life.begin - 2, life.end)]
            for power in (at for at in self.cuts if at >= span.begin):
                until = min(span.end, power)
                whole = any(span.begin - 2 <= at < until for at in moved) or span.begin < 2
                found.append((0.0, power, power) if whole else (span.begin - 1 - self.lag, until + self.lag, power))
        return found

    def _index_queues(self) -> None:
        """Messages of queues may be redelivered whenever something goes wrong; none may be missing where the config
        has had their topic all the time."""
        published = list(self.history.of(Published))
        if not published:
            return
        always: set[tuple[str, str]] = set()
        for config in self.plan.configs:
            queues = config.queues
            topics = {(MQTT, t) for t in queues.topics} if queues is not None else set()
            topics |= {(NATS, "in.x")} if queues is not None and queues.subject else set()
            always = always & topics if config is not self.plan.configs[0] else topics
        again = AGAIN if self.spans or len(self.lives) > 1 else 0
        for one in published:
            stored = True if (one.server, one.topic) in always else None
            self.copies[one.id] += [Copy(one.at, EVER, stored, None, one.send, 0, True)]
            self.copies[one.id] += [Copy(one.at, EVER, None, None, one.send, 0, True)] * again

    # -- events -------------------------------------------------------------------------------------------------------

    @cached_property
    def attempts_of(self) -> dict[tuple[str, str], list[Attempt]]:
        """The attempts at subscribers by server and event."""
        found: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
        for attempt in self.attempts:
            if not attempt.arrived.dead:
                found[attempt.arrived.server, attempt.id].append(attempt)
        return found

    @cached_property
    def dead_of(self) -> dict[tuple[str, str], list[Attempt]]:
        """Writes of dead letters to servers, by trigger (or bridge) and event."""
        found: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
        for attempt in self.attempts:
            if attempt.arrived.dead:
                found[attempt.attributes.get("tidegatetrigger", ""), attempt.id].append(attempt)
        return found

    @cached_property
    def letters_of(self) -> dict[tuple[str, str], list[dict[str, str]]]:
        """Dead letters in files, by trigger and event."""
        found: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
        for _, _, attributes in self.letters:
            found[attributes.get("tidegatetrigger", ""), attributes.get("id", "")].append(attributes)
        return found

    def settled(self, trigger: str, id: str) -> bool:
        """Whether the subscriber or the dead letter took the event at some time."""
        return self.settled_at(trigger, id) < EVER or bool(self.letters_of.get((trigger, id)))

    def settled_at(self, trigger: str, id: str) -> float:
        """When a server first took it, as subscriber or as dead letter."""
        found = [a.answered for a in self.attempts_of.get((trigger, id), ()) if a.took]
        found += [a.answered for a in self.dead_of.get((trigger, id), ()) if a.took]
        found += [self.kafka.taken[trigger, id]] if (trigger, id) in self.kafka.taken else []
        return min(found, default=EVER)

    def letters_by_attempt(self) -> Iterator[tuple[str, str, dict[str, str], Attempt | None]]:
        """All dead letters: trigger, event, attributes, and the first write if it went to a server."""
        for (trigger, id), found in self.dead_of.items():
            for attempt in found:
                yield trigger, id, attempt.attributes, attempt
        for (trigger, id), letters in self.letters_of.items():
            for letter in letters:
                yield trigger, id, letter, None

    @cached_property
    def order_of_acceptance(self) -> dict[str, tuple[float, float, int, int]]:
        """For events that were stored once at most: begin and end of their sending, the send and the place in it."""
        found = {}
        for id, copies in self.copies.items():
            possible = [c for c in copies if c.stored is not False]
            if len(possible) == 1:
                one = possible[0]
                found[id] = (one.begin, one.end if one.stored else EVER, one.send, one.place)
        return found

    @cached_property
    def times(self) -> dict[str, list[float]]:
        """When attempts arrived, by server."""
        return {server: [a.at for a in found] for server, found in self.by_server.items()}

    def between(self, server: str, begin: float, end: float) -> list[Attempt]:
        """The attempts that arrived at a server after `begin` and before `end`."""
        times = self.times.get(server, [])
        return self.by_server[server][bisect_right(times, begin) : bisect_left(times, end)] if times else []


def _stored(sent: Sent, status: int | None) -> bool | None:
    if not sent.whole:
        return False
    if status is None or status in (408, 413, 422, 429, 503):
        return None
    return 200 <= status < 300
