"""A simulated Kafka cluster with one broker: topics, and consumer groups with their offsets.

It outlives the gateway's processes. Each group has an imaginary member on another machine, which gets partitions when a
fault says so, processes some of their records, and commits. The clients in the gateway are in `kafka_clients.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from zlib import crc32

from aiokafka.partitioner import murmur2
from gateway_kafka.client import Headers, Partition, Record

from .history import Arrived, Committed, Produced, Recreated, Replied, Taken

if TYPE_CHECKING:
    from .plan import Config, Fault
    from .world import World

PARTITIONS = 2
APART = 1000
"""What is between the first offsets of topics: as if older records had been deleted."""
CHANNEL = "tidegate.default"
"""The topic of the channel `kafka`."""
OTHER = "other"
"""The imaginary member of each group."""
FAR_S = 5.0
"""How long a client tries to reach a broker before it gives its connection up."""


def topic_in(name: str) -> str:
    """The topic that the Kafka source of a broker or bridge reads."""
    return f"in-{name}"


def topic_out(name: str) -> str:
    """The topic to which the Kafka sink of a trigger or bridge writes."""
    return f"out-{name}"


def partition_of_key(key: bytes, *, wire: bool = False) -> int:
    """The partition of all records with this key; `wire` if Kafka's own clients choose it."""
    return (murmur2(key) & 0x7FFFFFFF if wire else crc32(key)) % PARTITIONS


class Client(Protocol):
    """A member of a group, as the cluster sees it: a consumer in a process of the gateway."""

    session_s: float
    topics: list[str]

    @property
    def dead(self) -> bool:
        """Whether its process is gone."""

    def poke(self) -> None:
        """Something has changed that it wants to know."""

    def expelled(self) -> None:
        """It learns that the group continues without it."""

    def renewed(self) -> None:
        """It learns that one of its topics has been recreated."""


@dataclass
class Log:
    """A partition. `first` is the offset of the first record, `end` that of the next one."""

    first: int = 0
    end: int = 0
    records: list[Record] = field(default_factory=list)

    def after(self, offset: int, most: int) -> list[Record]:
        """The records at or after an offset."""
        return [record for record in self.records if record.offset >= offset][:most]


@dataclass
class Topic:
    """A topic; one that is recreated has another `id`."""

    name: str
    number: int = 1
    logs: list[Log] = field(default_factory=lambda: [Log() for _ in range(PARTITIONS)])

    @property
    def id(self) -> str:
        """What tells it from those of the same name."""
        return f"{self.name}#{self.number}"


class Cluster:
    """The cluster of a run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.wire = any(config.kafka is not None and config.kafka.wire for config in world.plan.configs)
        """Whether producers are the plugin's own, which speak with a `kafka_wire.WireBroker`."""
        self._random = world.plan.random("kafka")
        for config in world.plan.configs:
            for name in (*config.reads, *config.writes):
                self.topics.setdefault(name, Topic(name))
        for number, topic in enumerate(self.topics.values()):
            topic.logs = [Log(number * APART, number * APART) for _ in topic.logs]

    # -- what its network is like -------------------------------------------------------------------------------------

    def lasts(self, kind: str) -> int | None:
        """The amount of a fault of the cluster that lasts now."""
        return self.world.faults.lasting(kind, "")

    @property
    def away(self) -> bool:
        """Whether nobody answers."""
        return self.lasts("kafka-away") is not None

    def delay(self, kind: str = "") -> float:
        """How long a request, or its answer, is on its way."""
        late = (self.lasts("kafka-slow") or 0) + ((self.lasts(kind) or 0) if kind else 0)
        return 0.001 + self._random.random() * 0.004 + late / 1000

    # -- topics -----------------------------------------------------------------------------------------------------

    def log(self, partition: Partition) -> Log:
        """A partition's records."""
        return self.topics[partition[0]].logs[partition[1]]

    def partition_of(self, topic: str, key: bytes | None) -> Partition:
        """The partition in which a record with this key belongs; any for one without."""
        return topic, partition_of_key(key, wire=self.wire) if key is not None else self._random.randrange(PARTITIONS)

    def write(
        self,
        where: Partition,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        *,
        by: int,
        send: int = -1,
        id: str | None = None,
    ) -> int:
        """Appends a record: of `Plan.sends[send]`, or of this life of the gateway. Returns the number of its arrival if
        that is somewhere to be delivered, else -1."""
        topic, log, now = self.topics[where[0]], self.log(where), self.world.scheduler.now
        if self._random.random() < 0.1:
            log.end += 1  # the mark of somebody's transaction
        id = dict(headers).get("ce_id", b"").decode() if id is None else id
        id = id or f"{where[1]}:{log.end}"
        stamp = self.world.now_ns() // 1_000_000
        log.records.append(Record(log.end, stamp, key, value, headers))
        self.world.add(Produced(now, topic.name, topic.number, where[1], log.end, id, send, by, stamp))
        log.end += 1
        self.poke(topic.name)
        if not topic.name.startswith("out-"):
            return -1
        number = self.world.arrivals()
        seen = [("content-type" if n == "content-type" else n.replace("_", "-"), v.decode()) for n, v in headers]
        seen.append(("kafka-key", "null" if key is None else key.decode()))
        seen.append(("kafka-value", "null" if value is None else "there"))
        server = topic.name.removeprefix("out-")
        self.world.add(Arrived(now, number, server, -1, tuple(seen), value or b"", by))
        return number

    def replied(self, number: int, status: int | None, how: str = "") -> None:
        """What it answered to the record that arrived as this number."""
        if number >= 0:
            self.world.add(Replied(self.world.scheduler.now, number, status, how))

    def recreate(self, name: str) -> None:
        """An administrator deletes a topic and creates it again."""
        old = self.topics[name]
        self.topics[name] = Topic(name, old.number + 1)
        self.world.add(Recreated(self.world.scheduler.now, name, old.number + 1))
        for group in self.groups.values():
            for member in group.members:
                if name in member.topics:
                    self.world.scheduler.after(0.2 + self._random.random(), member.renewed)

    def poke(self, topic: str = "") -> None:
        """Those who read the topic look again; without a name all do."""
        for group in self.groups.values():
            for member in group.members:
                if not topic or topic in member.topics:
                    member.poke()

    # -- groups -----------------------------------------------------------------------------------------------------

    def group(self, name: str) -> Group:
        """A group, which exists from the first question on."""
        return self.groups.setdefault(name, Group(self, name))

    def begin(self, fault: Fault) -> str:
        """A fault of the groups or topics begins. Returns its effect, as `history.Happened` has it."""
        names = sorted(self.groups) if fault.kind != "kafka-recreate" else sorted(self.world.plan.configs[0].reads)
        names = [name for name in names if name != CHANNEL]
        if not names:
            return "nothing"
        name = names[int(fault.target or "0") % len(names)]
        if fault.kind == "kafka-recreate":
            self.recreate(name)
        elif not self.groups[name].members:
            return "nothing"
        else:
            group = self.groups[name]
            group.evict(fault.amount / 1000) if fault.kind == "kafka-evict" else group.move(fault.amount)
        return ""

    def over(self, fault: Fault) -> None:
        """The other members leave the group again."""
        names = [name for name in sorted(self.groups) if name != CHANNEL]
        if names:
            self.groups[names[int(fault.target or "0") % len(names)]].return_all()

    def end(self) -> None:
        """All faults are over."""
        for group in self.groups.values():
            group.return_all()
        self.poke()

    def silent(self, until: float) -> None:
        """The gateway says nothing until then: it is frozen, or cut off."""
        scheduler = self.world.scheduler
        for group in self.groups.values():
            for member in list(group.members):
                if until - scheduler.now > member.session_s:
                    scheduler.after(member.session_s, group.expel, member, until - scheduler.now - member.session_s + 1)

    def died(self) -> None:
        """The gateway's process is gone: its members are found dead after their sessions."""
        for group in self.groups.values():
            for member in [m for m in group.members if m.dead]:
                self.world.scheduler.after(member.session_s, group.forget, member)

    def resting(self, config: Config) -> str:
        """What members have still to read or to commit, "" if nothing."""
        for name in config.groups:
            if not self.group(name).members:
                return f"{name} has no member"
        for group in self.groups.values():
            for member in group.members:
                if member.dead or set(group.target(member)) != set(group.partitions(member)):
                    return f"{group.name} is rebalancing"
                for partition in group.partitions(member):
                    offset, end = group.offset(partition), self.log(partition).end
                    if offset < end or offset > end > 0:  # beyond it: of a deleted topic, and nobody has noticed
                        return f"{group.name} has committed {offset} of {partition}"
        return ""


class Group:
    """A consumer group. Partitions have one owner at a time: a member, `OTHER`, or nobody."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.members: list[Client] = []
        self.committed: dict[Partition, tuple[int, str]] = {}
        self.owner: dict[Partition, Client | str] = {}
        self._cluster = cluster
        self._elsewhere: set[Partition] = set()  # what the other member shall have
        self._moves = 0

    # -- offsets ----------------------------------------------------------------------------------------------------

    def offset(self, partition: Partition) -> int:
        """Where a member begins to read."""
        log, topic = self._cluster.log(partition), self._cluster.topics[partition[0]]
        offset, id = self.committed.get(partition, (log.first, topic.id))
        return offset if not id or id == topic.id else log.first

    def commit(self, by: Client | str, offsets: dict[Partition, tuple[int, str]]) -> None:
        """Stores offsets with the ids of their topics. Those of partitions that another one has are left out."""
        for partition, (offset, id) in offsets.items():
            if isinstance(by, str) or (by in self.members and self.owner.get(partition) is by):
                self.committed[partition] = offset, id
                topic = self._cluster.topics[partition[0]]
                number = int(id.rpartition("#")[2]) if id else topic.number
                who = by if isinstance(by, str) else "gateway"
                now = self._cluster.world.scheduler.now
                self._cluster.world.add(Committed(now, self.name, topic.name, number, partition[1], offset, who))

    # -- members ----------------------------------------------------------------------------------------------------

    def join(self, member: Client) -> None:
        """A member comes."""
        self.members.append(member)
        self.poke()

    def leave(self, member: Client) -> None:
        """A member goes in order, or is taken for dead."""
        if member in self.members:
            self.members.remove(member)
        for partition in self.partitions(member):
            self.release(partition)
        self.poke()

    forget = leave

    def expel(self, member: Client, learns_s: float) -> None:
        """The group continues without a member that is silent; it learns that later."""
        if member in self.members:
            self.leave(member)
            self._cluster.world.scheduler.after(learns_s, member.expelled)

    def partitions(self, member: Client) -> list[Partition]:
        """What a member has."""
        return [partition for partition, owner in self.owner.items() if owner is member]

    def target(self, member: Client) -> list[Partition]:
        """What a member shall have: all, if it is the newest, but what others have or shall have."""
        if member not in self.members or any(m.dead for m in self.members) or self.members[-1] is not member:
            return []
        every = [(t, n) for t in member.topics if t in self._cluster.topics for n in range(PARTITIONS)]
        return [p for p in every if p not in self._elsewhere and self.owner.get(p, member) is member]

    def complete(self, member: Client) -> bool:
        """Whether no dead member is still waited for, so that the member is told what it has."""
        return member in self.members and not any(m.dead for m in self.members)

    def own(self, member: Client, partition: Partition) -> None:
        """A member has a partition."""
        self.owner[partition] = member

    def release(self, partition: Partition) -> None:
        """Its owner gives a partition up."""
        self.owner.pop(partition, None)
        if partition in self._elsewhere:
            self._take(partition)

    def poke(self) -> None:
        """All members look again."""
        for member in self.members:
            member.poke()

    # -- the other member -------------------------------------------------------------------------------------------

    def move(self, amount: int) -> None:
        """The other member joins: it gets each partition whose number is in `amount`, in bits, once its owner gives it
        up. An owner that takes longer than its session is expelled."""
        self._moves += 1
        topics = sorted({topic for member in self.members for topic in member.topics})
        moved = {(t, n) for t in topics for n in range(PARTITIONS) if amount >> n & 1}
        self._elsewhere |= moved
        for partition in moved:
            if partition not in self.owner:
                self._take(partition)
        self.poke()
        for member in list(self.members):
            self._cluster.world.scheduler.after(member.session_s, self._too_late, member, self._moves)

    def _too_late(self, member: Client, move: int) -> None:
        if move == self._moves and self._elsewhere & set(self.partitions(member)):
            self.expel(member, 1.0)

    def evict(self, learns_s: float) -> None:
        """The group takes its member for dead, and gives all that it has to the other one."""
        for member in list(self.members):
            self._elsewhere |= set(self.partitions(member))
            self.expel(member, learns_s)

    def return_all(self) -> None:
        """The other member leaves."""
        self._moves += 1
        self._elsewhere.clear()
        for partition in [p for p, owner in self.owner.items() if owner == OTHER]:
            del self.owner[partition]
        self.poke()

    def _take(self, partition: Partition) -> None:
        if partition not in self.owner:
            self.owner[partition] = OTHER
            self._cluster.world.scheduler.after(0.1, self._work, partition, self._moves, self.offset(partition))

    def _work(self, partition: Partition, move: int, offset: int) -> None:
        """The other member processes three records, and commits them, or not yet."""
        cluster = self._cluster
        if self.owner.get(partition) != OTHER or move != self._moves:
            return
        if found := cluster.log(partition).after(offset, 3):
            offset = found[-1].offset + 1
            if offset % 4:
                topic, begin = cluster.topics[partition[0]], self.offset(partition)
                now = cluster.world.scheduler.now
                cluster.world.add(Taken(now, self.name, topic.name, topic.number, partition[1], begin, offset))
                self.commit(OTHER, {partition: (offset, topic.id)})
        cluster.world.scheduler.after(0.2, self._work, partition, move, offset)
