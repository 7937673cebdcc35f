"""Administration of a cluster: topics, offsets and consumer groups. Always on aiokafka."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from aiokafka import errors
from aiokafka.errors import for_code

from gateway_core.contract.moments import time_ns_of
from gateway_core.contract.start_position import LATEST, StartPosition

from .admin_client import AdminClient
from .aio import needs
from .client import GroupActive, KafkaFault, Partition, began_in, offset_metadata, topic_id_in
from .config import OffsetStart, Start, TimestampStart
from .group_history import GroupHistory, OffsetsLost


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
        heard = await self.requests.topics(list(topics))
        self.ids |= heard.ids
        for error in heard.refused.values():
            raise error
        return heard.leaders

    async def _create(self, name: str, partitions: int, replication: int | None) -> None:
        code, text = await self.requests.create_topic(name, partitions, replication)
        error = for_code(code)
        if error in (errors.NoError, errors.TopicAlreadyExistsError):
            return
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
        return await self._list_offsets(partitions, needs.EARLIEST)

    async def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """The last stable offset of each partition: the next offset, or the first one of an open transaction."""
        return await self._list_offsets(partitions, needs.LATEST)

    async def at_time(self, partitions: Collection[Partition], ms: int) -> dict[Partition, int]:
        """The offset of the first record with this timestamp (Unix milliseconds) or a later one, or the end if there is
        none."""
        found = await self._list_offsets(partitions, max(0, ms))
        if later := [partition for partition, offset in found.items() if offset < 0]:
            found |= await self.ends(later)
        return found

    async def _list_offsets(self, partitions: Collection[Partition], time: int) -> dict[Partition, int]:
        if not partitions:
            return {}
        return await self._try(lambda: self.requests.offsets(partitions, time), "offsets")

    # -- groups ----------------------------------------------------------------------------------------------------

    async def groups(self) -> list[str]:
        """The names of all consumer groups in the cluster."""
        return await self._try(self.requests.groups, "groups")

    async def members(self, group: str) -> list[str]:
        """The members of a group, by client id and address."""
        return await self._try(lambda: self.requests.members(group), f"group {group}")

    async def delete_group(self, group: str) -> None:
        """Deletes a group and its offsets; one that is not there is none. Raises `GroupActive` if it has members."""
        await self._try(lambda: self.requests.delete_group(group), f"group {group}")

    async def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        """The committed offset of each partition (the next one to read), or None if the group has not committed one."""
        return {partition: offset for partition, (offset, _) in (await self.committed_words(group, partitions)).items()}

    def _begins(self, committed: Mapping[Partition, tuple[int | None, str]]) -> dict[Partition, int]:
        found = {}
        for partition, (offset, metadata) in committed.items():
            began = began_in(metadata)
            if offset is not None and began is not None and topic_id_in(metadata) == self.ids.get(partition[0], ""):
                found[partition] = began
        return found

    async def committed_words(
        self, group: str, partitions: Collection[Partition]
    ) -> dict[Partition, tuple[int | None, str]]:
        """The committed offsets with their metadata."""
        if not partitions:
            return {}
        return await self._try(lambda: self.requests.committed(group, partitions), f"group {group}")

    async def commit(
        self, group: str, offsets: Mapping[Partition, int], metadata: Mapping[Partition, str] = MappingProxyType({})
    ) -> None:
        """Commits for a group that has no members. Raises `GroupActive` if it has any."""
        if offsets:
            await self._try(lambda: self.requests.commit(group, offsets, metadata), f"group {group}")

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
        known = await self.committed_words(group, partitions)
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
            known = await self.committed_words(group, partitions)
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


_ZONE = re.compile(r"([Zz]|[+-]\d\d:\d\d)$")


def milliseconds(timestamp: str) -> int:
    """Converts an RFC 3339 time to Unix milliseconds; UTC is the default time zone. Raises `KafkaFault`."""
    try:
        return -(-time_ns_of(timestamp if _ZONE.search(timestamp) else f"{timestamp}Z") // 1_000_000)
    except ValueError as error:
        raise KafkaFault(f"{timestamp!r} is not an RFC 3339 time", retry=False) from error
