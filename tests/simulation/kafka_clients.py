"""The clients of the simulated Kafka cluster: what the plugin gets in place of those of a client library.

They keep to `gateway_kafka.client`. What they ask of the cluster goes its way when their process is gone, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup
from gateway_kafka import channel, connect, feed, source
from gateway_kafka.admin import Admin, NoTopic
from gateway_kafka.client import Begins, GroupActive, KafkaFault, Member, Partition, recreated
from gateway_kafka.client_config import KafkaConfig

from .kafka_cluster import FAR_S, PARTITIONS, Cluster, Topic
from .kafka_producer import SimulatedProducer

log = logging.getLogger("tidegate.kafka")
_AGAIN_S = 0.25
_START_S = 5.0


async def reached(cluster: Cluster, limit_s: float) -> None:
    """A request that the cluster answers, at last. Raises `KafkaFault` if it does not within `limit_s`."""
    with anyio.move_on_after(limit_s):
        while cluster.away:  # noqa: ASYNC110 - the fault ends by itself
            await anyio.sleep(_AGAIN_S)
        await anyio.sleep(2 * cluster.delay())
        return
    raise KafkaFault(f"no answer within {limit_s:g} s")


class SimulatedConsumer:
    """`client.Consumer`. One with the option `client: aiokafka` gives up all partitions in every rebalance, one with
    `confluent` only those that it loses."""

    def __init__(
        self,
        cluster: Cluster,
        config: KafkaConfig,
        *,
        group: str,
        topics: list[str],
        member: Member,
        max_poll_records: int,
        session_timeout_s: float,
        begins: Begins = MappingProxyType({}),
    ) -> None:
        self.session_s = session_timeout_s
        self.topics = list(topics)
        self.fault: KafkaFault | None = None
        self._cluster = cluster
        self._config = config
        self._eager = config.client.name == "aiokafka"
        self._group = cluster.group(group)
        self._member = member
        self._most = max_poll_records
        self._position: dict[Partition, int] = {}  # of those that the member has
        self._ids: dict[Partition, str] = {}
        self._known: dict[str, str] = {}  # as they were last seen
        self._paused: set[Partition] = set()
        self._answers_at = 0.0
        self._fetched_at: float | None = None
        self._joined = self._told = self._expelled = self._renewed = False
        self._joins = 0
        self._loop: Any = None
        self._wake: asyncio.Event
        self._tried: asyncio.Event
        self._ended: asyncio.Event
        self._scope = anyio.CancelScope()

    # -- what the cluster does with it --------------------------------------------------------------------------------

    @property
    def dead(self) -> bool:
        """See `kafka_cluster.Client`."""
        return bool(self._loop.dead)

    def poke(self) -> None:
        """See `kafka_cluster.Client`."""
        if not self.dead:
            self._loop.call_soon(self._wake.set)

    def expelled(self) -> None:
        """See `kafka_cluster.Client`."""
        self._expelled = True
        self.poke()

    def renewed(self) -> None:
        """See `kafka_cluster.Client`."""
        self._renewed = True
        self.poke()

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        """See `client.Consumer`."""
        self._loop = asyncio.get_running_loop()
        self._wake, self._tried, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        tasks.start_soon(self._run)
        with anyio.move_on_after(_START_S):
            await self._tried.wait()

    async def stop(self) -> None:
        """See `client.Consumer`."""
        if self._loop is None:
            return
        self._scope.cancel()
        await self._ended.wait()
        try:
            await self._let_go(list(self._position))
        finally:
            if not self._cluster.away:  # else it is found dead
                self._cluster.world.scheduler.after(self._cluster.delay(), self._group.leave, self)
            else:
                self._cluster.world.scheduler.after(self.session_s, self._group.leave, self)

    async def _run(self) -> None:
        try:
            with self._scope:
                while True:
                    self._wake.clear()
                    await self._turn()
        finally:
            self._ended.set()

    async def _turn(self) -> None:
        """Does what is to be done next, or waits."""
        cluster, group = self._cluster, self._group
        if cluster.away:
            await self._cut_off()
        elif self._expelled:
            self._expelled = self._joined = self._told = False
            self._lose()
            await anyio.sleep(_AGAIN_S)
        elif self._renewed:
            self._renewed = self._told = False
            with anyio.CancelScope(shield=True):
                await self._let_go(list(self._position))
        elif not self._joined:
            await anyio.sleep(2 * cluster.delay())
            self._joined = True
            self._joins += 1
            group.join(self)
            self._tried.set()
        elif self in group.members and (target := set(group.target(self))) != set(self._position):
            if leaving := [p for p in self._position if self._eager or p not in target]:
                with anyio.CancelScope(shield=True):
                    await self._let_go(leaving)
            else:
                await self._adopt(sorted(target - self._position.keys()))
        elif not self._told and group.complete(self):
            await self._adopt([])
        else:
            await self._fetch()

    async def _cut_off(self) -> None:
        """Nobody answers: it waits, and in the end gives its connection up."""
        before = self._loop.time()
        while self._cluster.away:
            self.fault = KafkaFault("no broker answers")
            await anyio.sleep(_AGAIN_S)
            if self._position and self._loop.time() > before + FAR_S:
                self._lose()
                self._told = False
        self.fault = None

    def _lose(self) -> None:
        lost = list(self._position)
        self._forget(lost)
        if lost:
            self._member.lost(lost)
        if self in self._group.members:
            for partition in lost:
                self._group.release(partition)

    def _forget(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self._position.pop(partition, None)
            self._paused.discard(partition)

    async def _let_go(self, partitions: list[Partition]) -> None:
        self._forget(partitions)
        if partitions:
            offsets = await self._member.revoked(partitions)
            try:
                if offsets:
                    await self._commit(offsets)
            except KafkaFault as fault:
                log.warning("consumer group %s: can't commit the last offsets: %s", self._group.name, fault)
        if self in self._group.members:
            for partition in partitions:
                if self._group.owner.get(partition) is self:
                    self._group.release(partition)

    async def _adopt(self, partitions: list[Partition]) -> None:
        group, cluster = self._group, self._cluster
        await anyio.sleep(2 * cluster.delay())
        if not set(partitions) <= set(group.target(self)) or self._expelled or cluster.away:
            return
        starts = {}
        for partition in partitions:
            topic = cluster.topics[partition[0]]
            offset, id = group.committed.get(partition, (0, ""))
            if id not in ("", topic.id):
                first = cluster.log(partition).first
                log.error("consumer group %s: %s", group.name, recreated(partition, offset, first))
            self._position[partition] = starts[partition] = group.offset(partition)
            self._ids[partition] = topic.id
            group.own(self, partition)
        self._told = True
        self._member.assigned(starts, {partition[0]: self._ids[partition] for partition in starts})

    # -- reading ------------------------------------------------------------------------------------------------------

    def pause(self, partition: Partition) -> None:
        """See `client.Consumer`."""
        if partition in self._position:
            self._paused.add(partition)

    def resume(self, partition: Partition) -> None:
        """See `client.Consumer`."""
        self._paused.discard(partition)
        self._wake.set()

    def _readable(self) -> list[Partition]:
        log, position = self._cluster.log, self._position
        return [p for p in sorted(position) if p not in self._paused and log(p).end != position[p]]

    async def _fetch(self) -> None:
        now = self._loop.time()
        if not self._readable():
            self._fetched_at = None
            await self._wake.wait()
            return
        if self._fetched_at is None:
            self._fetched_at = now + 2 * self._cluster.delay("kafka-fetch")
        if now < self._fetched_at:
            with anyio.move_on_after(self._fetched_at - now):
                await self._wake.wait()
            return
        self._fetched_at = None
        for partition in self._readable():
            if partition in self._position and partition not in self._paused:
                self._deliver(partition)
        for partition, offset in list(self._position.items()):  # also of what is paused, as aiokafka's client does
            self._member.passed(partition, offset)

    def _deliver(self, partition: Partition) -> None:
        found = self._cluster.log(partition)
        position = self._position[partition]
        if not found.first <= position <= found.end:
            position = self._position[partition] = found.first
        if records := found.after(position, self._most):
            self._position[partition] = records[-1].offset + 1
            self._member.fetched(partition, records, found.end)
        elif position < found.end:
            self._position[partition] = found.end
            self._member.passed(partition, found.end)

    # -- commits ------------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """See `client.Consumer`."""
        if mine := {p: offset for p, offset in offsets.items() if p in self._position}:
            await self._commit(mine)

    async def _commit(self, offsets: Mapping[Partition, int]) -> None:
        """Requests of one connection arrive in their order."""
        cluster, limit = self._cluster, self._config.request_timeout_s
        tagged = {p: (offset, self._ids.get(p, "")) for p, offset in offsets.items()}
        if cluster.away:
            await reached(cluster, limit)
        fault = cluster.lasts("kafka-commit")
        if fault == 0:
            await anyio.sleep(2 * cluster.delay())
            raise KafkaFault("the coordinator is loading")
        now = cluster.world.scheduler.now
        self._answers_at = max(self._answers_at, now + (3.0 if fault == 2 else cluster.delay()))
        cluster.world.scheduler.at(self._answers_at, self._arrived, self._joins, tagged)
        await anyio.sleep(self._answers_at - now + cluster.delay())
        if fault == 1:
            await anyio.sleep(limit)
            raise KafkaFault(f"no answer within {limit:g} s")

    def _arrived(self, joins: int, offsets: dict[Partition, tuple[int, str]]) -> None:
        if joins == self._joins:  # else it is of a generation that is over, and the cluster refuses it
            self._group.commit(self, offsets)


class SimulatedAdmin(Admin):
    """The plugin's own `Admin`, with answers from the simulated cluster."""

    cluster: Cluster

    async def __aenter__(self) -> Self:
        await reached(self.cluster, self._config.request_timeout_s)
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def _asked(self) -> None:
        await reached(self.cluster, self._config.request_timeout_s)

    async def partitions(self, topics: Collection[str]) -> list[Partition]:
        await self._asked()
        known = self.cluster.topics
        if missing := [name for name in topics if name not in known]:
            raise NoTopic(f"the topic {', '.join(missing)} does not exist")
        self.ids |= {name: known[name].id for name in topics}
        return [(name, number) for name in topics for number in range(PARTITIONS)]

    async def ensure_topic(self, name: str, partitions: int, replication: int | None) -> None:
        await self._asked()
        self.cluster.topics.setdefault(name, Topic(name))

    async def beginnings(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        await self._asked()
        return {partition: self.cluster.log(partition).first for partition in partitions}

    async def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        await self._asked()
        return {partition: self.cluster.log(partition).end for partition in partitions}

    async def committed_words(
        self, group: str, partitions: Collection[Partition]
    ) -> dict[Partition, tuple[int | None, str]]:
        await self._asked()
        known = self.cluster.group(group).committed
        return {partition: (known[partition][0] if partition in known else None, "") for partition in partitions}

    async def commit(
        self, group: str, offsets: Mapping[Partition, int], metadata: Mapping[Partition, str] = MappingProxyType({})
    ) -> None:
        await self._asked()
        if offsets and self.cluster.group(group).members:
            raise GroupActive(group)
        self.cluster.group(group).commit("admin", {p: (offset, "") for p, offset in offsets.items()})


@contextmanager
def connected(cluster: Cluster) -> Iterator[None]:
    """Inside, the plugin's clients are those of this cluster."""
    users: Sequence[Any] = (source, channel, feed)
    before = connect.producer, connect.consumer, [user.Admin for user in users]
    real = connect.producer
    connect.producer = lambda config, context: (
        real(config, context) if cluster.wire else SimulatedProducer(cluster, config)
    )
    connect.consumer = lambda config, context, **given: SimulatedConsumer(cluster, config, **given)
    SimulatedAdmin.cluster = cluster
    for user in users:
        user.Admin = SimulatedAdmin
    try:
        yield
    finally:
        connect.producer, connect.consumer, admins = before
        for user, admin in zip(users, admins, strict=True):
            user.Admin = admin
        del SimulatedAdmin.cluster
