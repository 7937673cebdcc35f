"""Administration of a cluster: topics, offsets and consumer groups. Always on aiokafka."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from aiokafka import errors
from aiokafka.errors import for_code
from aiokafka.protocol.admin import CreateTopicsRequest, DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition

from gateway_core.contract.start_position import LATEST, StartPosition

from .admin_client import AdminClient
from .aio.metadata import look_up
from .client import KafkaFault, Partition, began_in, offset_metadata, topic_id_in
from .config import OffsetStart, Start, TimestampStart
from .group_history import GroupHistory, OffsetsLost

_EARLIEST = -2
_LATEST = -1
_READ_COMMITTED = 1
_NOT_EMPTY = 68  # aiokafka has no class for it
_MEMBERS = (errors.UnknownMemberIdError, errors.IllegalGenerationError, errors.RebalanceInProgressError)
_COORDINATOR = (errors.GroupCoordinatorNotAvailableError, errors.NotCoordinatorForGroupError)


class GroupActive(KafkaFault):
    """The group has members, and only they can commit."""


class NoTopic(KafkaFault):
    """The topic does not exist."""


class Prepared(NamedTuple):
    """The offsets that a group starts from. `new`: it had none, so its start was chosen now. `begins`: where it once
    began, in partitions of which that is known."""

    new: bool
    begins: dict[Partition, int]


class Admin(AdminClient):
    """Use it in `async with`. Every method retries transient errors until `request_timeout_s` has passed, and raises
    `KafkaFault`."""

    # -- topics ----------------------------------------------------------------------------------------------------

    async def partitions(self, topics: Collection[str]) -> list[Partition]:
        """All partitions of these topics. Raises `NoTopic` if one does not exist; the lookup does not create it."""

        async def ask() -> list[Partition]:
            known = await self._topics(topics)
            if missing := [name for name in topics if name not in known]:
                raise NoTopic(f"the topic {', '.join(missing)} does not exist")
            return [(name, number) for name in topics for number in sorted(known[name])]

        return await self._try(ask, f"topic {', '.join(topics)}")

    async def ensure_topic(self, name: str, partitions: int, replication: int | None) -> None:
        """Creates the topic if it does not exist, and returns once every partition has a leader. Several gateways may
        call this at the same time. An existing topic is not changed."""

        async def ask() -> None:
            known = await self._topics([name])
            if name not in known:
                await self._create(name, partitions, replication)
                known = await self._topics([name])
            if name not in known or -1 in known[name].values():
                raise errors.LeaderNotAvailableError

        await self._try(ask, f"topic {name}")

    async def _topics(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        """The leader of each partition, for those topics that exist."""
        answer = await look_up(self.client, list(topics))
        self.client.cluster.update_metadata(answer)
        self.ids |= answer.ids
        found: dict[str, dict[int, int]] = {}
        for code, name, _, parts in answer.topics:
            error = for_code(code)
            if error is errors.NoError:
                found[name] = {part[1]: part[2] for part in parts}
            elif error is not errors.UnknownTopicOrPartitionError:
                raise error
        return found

    async def _create(self, name: str, partitions: int, replication: int | None) -> None:
        controller = self.client.cluster.controller
        request = CreateTopicsRequest(
            create_topic_requests=[(name, partitions, replication or -1, [], [])],
            timeout=round(self._config.request_timeout_s * 1000),
            validate_only=False,
        )
        answer = await self._send(None if controller is None else controller.nodeId, request)
        for _, code, text in answer.topic_errors:
            error = for_code(code)
            if error in (errors.NoError, errors.TopicAlreadyExistsError):
                continue
            if error in (
                errors.InvalidReplicationFactorError,
                errors.InvalidPartitionsError,
                errors.PolicyViolationError,
                errors.InvalidTopicError,
            ):
                raise KafkaFault(f"the topic {name} can't be created: {text or error.__name__}", retry=False)
            raise error

    # -- offsets of partitions -------------------------------------------------------------------------------------

    async def beginnings(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The first available offset of each partition."""
        return await self._list_offsets(partitions, _EARLIEST)

    async def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The last stable offset of each partition: the next offset, or the first one of an open transaction."""
        return await self._list_offsets(partitions, _LATEST)

    async def at_time(self, partitions: Collection[Partition], ms: int) -> dict[Partition, int]:
        """The offset of the first record with this timestamp (Unix milliseconds) or a later one, or the end if there is
        none."""
        found = await self._list_offsets(partitions, max(0, ms))
        if later := [partition for partition, offset in found.items() if offset < 0]:
            found |= await self.ends(later)
        return found

    async def _list_offsets(self, partitions: Collection[Partition], time: int) -> dict[Partition, int]:
        async def ask() -> dict[Partition, int]:
            found: dict[Partition, int] = {}
            for node, asked in (await self._by_leader(partitions)).items():
                topics = [(name, [(number, time) for number in numbers]) for name, numbers in _by_topic(asked).items()]
                answer = await self._send(node, OffsetRequest(-1, _READ_COMMITTED, topics))
                for name, parts in answer.topics:
                    for number, code, _, offset in parts:
                        _check(code)
                        found[name, number] = offset
            return found

        return await self._try(ask, "offsets") if partitions else {}

    async def _by_leader(self, partitions: Collection[Partition]) -> dict[int, list[Partition]]:
        cluster = self.client.cluster
        leaders = {partition: cluster.leader_for_partition(TopicPartition(*partition)) for partition in partitions}
        if not all(leader is not None and leader >= 0 for leader in leaders.values()):
            known = await self._topics({name for name, _ in partitions})
            leaders = {(name, number): known.get(name, {}).get(number, -1) for name, number in partitions}
            if missing := [f"{name}-{number}" for (name, number), leader in leaders.items() if leader < 0]:
                raise errors.LeaderNotAvailableError(", ".join(missing))
        found: dict[int, list[Partition]] = defaultdict(list)
        for partition, leader in leaders.items():
            found[leader].append(partition)
        return found

    # -- groups ----------------------------------------------------------------------------------------------------

    async def groups(self) -> list[str]:
        """The names of all consumer groups in the cluster."""

        async def ask() -> list[str]:
            found: set[str] = set()
            await self._topics([])
            for broker in self.client.cluster.brokers():
                answer = await self._send(broker.nodeId, ListGroupsRequest())
                _check(answer.error_code)
                found.update(name for name, kind in answer.groups if kind in ("", "consumer"))
            return sorted(found)

        return await self._try(ask, "groups")

    async def members(self, group: str) -> list[str]:
        """The members of a group, by client id and address."""

        async def ask() -> list[str]:
            answer = await self._send(await self._coordinator(group), DescribeGroupsRequest([group]))
            ((code, _, _, _, _, members, *_),) = answer.groups
            if for_code(code) is not errors.GroupIdNotFound:
                _check(code)
            return [f"{client} at {host.lstrip('/')}" for _, client, host, *_ in members]

        return await self._try(ask, f"group {group}")

    async def delete_group(self, group: str) -> None:
        """Deletes a group and its offsets; one that is not there is none. Raises `GroupActive` if it has members."""

        async def ask() -> None:
            answer = await self._send(await self._coordinator(group), DeleteGroupsRequest([group]))
            for _, code in answer.results:
                if code == _NOT_EMPTY:
                    raise GroupActive(f"the group {group} has members; stop them first")
                if code != errors.GroupIdNotFound.errno:
                    _check(code)

        await self._try(ask, f"group {group}")

    async def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        """The committed offset of each partition (the next one to read), or None if the group has not committed one."""

        return {partition: offset for partition, (offset, _) in (await self._committed(group, partitions)).items()}

    def _begins(self, committed: Mapping[Partition, tuple[int | None, str]]) -> dict[Partition, int]:
        found = {}
        for partition, (offset, metadata) in committed.items():
            began = began_in(metadata)
            if offset is not None and began is not None and topic_id_in(metadata) == self.ids.get(partition[0], ""):
                found[partition] = began
        return found

    async def _committed(
        self, group: str, partitions: Collection[Partition]
    ) -> dict[Partition, tuple[int | None, str]]:
        """The committed offsets with their metadata."""

        async def ask() -> dict[Partition, tuple[int | None, str]]:
            topics = list(_by_topic(partitions).items())
            answer = await self._send(await self._coordinator(group), OffsetFetchRequest(group, topics))
            _check(getattr(answer, "error_code", 0))
            found: dict[Partition, tuple[int | None, str]] = dict.fromkeys(partitions, (None, ""))
            for name, parts in answer.topics:
                for number, offset, metadata, code in parts:
                    _check(code)
                    found[name, number] = offset if offset >= 0 else None, metadata or ""
            return found

        return await self._try(ask, f"group {group}") if partitions else {}

    async def commit(
        self, group: str, offsets: Mapping[Partition, int], metadata: Mapping[Partition, str] = MappingProxyType({})
    ) -> None:
        """Commits for a group that has no members. Raises `GroupActive` if it has any."""

        async def ask() -> None:
            topics = [
                (name, [(number, offsets[name, number], metadata.get((name, number), "")) for number in numbers])
                for name, numbers in _by_topic(offsets).items()
            ]
            # a commit without generation and member id is accepted only for a group that has no members
            request = OffsetCommitRequest(group, -1, "", -1, topics)
            answer = await self._send(await self._coordinator(group), request)
            for _, parts in answer.topics:
                for _, code in parts:
                    if for_code(code) in _MEMBERS:
                        raise GroupActive(f"the group {group} has members; stop them first")
                    _check(code)

        if offsets:
            await self._try(ask, f"group {group}")

    async def _coordinator(self, group: str) -> int:
        answer = await self._send(None, FindCoordinatorRequest(group, 0))
        _check(answer.error_code)
        return int(answer.coordinator_id)

    async def prepare(
        self,
        group: str,
        topics: Sequence[str],
        start: Start | StartPosition,
        history: GroupHistory | None = None,
    ) -> Prepared:
        """Sets the offsets that a group starts from. A group that has never committed begins at `start`. A group that
        has committed in some partitions begins at the beginning of the others. Several gateways may call this at the
        same time.

        `history` knows the topics that the group has read before. A topic that was recreated since then is read from
        its beginning. Raises `OffsetsLost` if the topic is still the same but nothing is committed any more.
        """
        partitions = await self.partitions(topics)
        ids = {topic: self.ids.get(topic, "") for topic in topics}
        known = await self._committed(group, partitions)
        committed = {partition: offset for partition, (offset, _) in known.items()}
        missing = [partition for partition, offset in committed.items() if offset is None]
        bare = set(topics) - {name for (name, _), offset in committed.items() if offset is not None}
        before = history.topics() if history is not None and bare else {}
        if lost := [topic for topic in bare if topic in before and before[topic] == ids[topic]]:
            raise OffsetsLost(group, lost)
        new = len(missing) == len(partitions)
        if missing:
            first = {t for t in topics if not new or t in before}
            with suppress(GroupActive):
                # members that joined meanwhile have committed; partitions without an offset are read from their
                # beginning
                starts = await self._starts([p for p in missing if p[0] not in first], start)
                words = {p: offset_metadata(ids[p[0]], offset) for p, offset in starts.items()}
                starts |= await self._starts([p for p in missing if p[0] in first], "earliest")
                await self.commit(group, starts, words)
            known = await self._committed(group, partitions)
        if history is not None:
            history.keep(ids)
        return Prepared(new, self._begins(known))

    async def _starts(self, partitions: list[Partition], start: Start | StartPosition) -> dict[Partition, int]:
        if start in ("latest", LATEST):
            return await self.ends(partitions)
        if isinstance(start, TimestampStart):
            return await self.at_time(partitions, milliseconds(start.timestamp))
        if isinstance(start, StartPosition) and start.kind == "time":
            return await self.at_time(partitions, start.time_ns // 1_000_000)
        beginnings = await self.beginnings(partitions)
        if isinstance(start, OffsetStart):
            ends = await self.ends(partitions)
            return {p: min(max(start.offset, beginnings[p]), ends[p]) for p in partitions}
        if isinstance(start, StartPosition) and start.kind == "positions":
            ends = await self.ends(partitions)
            # an event's position is its offset plus one
            return {p: start.within(p[1], beginnings[p] + 1, ends[p] + 1) - 1 for p in partitions}
        return beginnings


def milliseconds(timestamp: str) -> int:
    """Converts an RFC 3339 time to Unix milliseconds; UTC is the default time zone. Raises `KafkaFault`."""
    try:
        found = datetime.fromisoformat(timestamp)
    except ValueError as error:
        raise KafkaFault(f"{timestamp!r} is not an RFC 3339 time", retry=False) from error
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for name, number in partitions:
        found[name].append(number)
    return found


def _check(code: int) -> None:
    if code:
        raise for_code(code)()
