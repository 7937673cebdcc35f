"""Administration with aiokafka's public clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, errors
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import TopicPartition

from ..client import GroupActive, KafkaFault, Partition
from ..client_config import KafkaConfig
from .closing import closed
from .needs import EARLIEST, LATEST
from .options import client_options
from .topic_ids import Topics

_MEMBERS = (
    errors.CommitFailedError,
    errors.UnknownMemberIdError,
    errors.IllegalGenerationError,
    errors.RebalanceInProgressError,
)


class PublicRequests:
    """`needs.AdminRequests` with clients of its own beside `client`, an `AIOKafkaClient`."""

    def __init__(self, client: Any, config: KafkaConfig) -> None:
        self._client = client
        self._config = config
        self._admin: Any = None
        self._reader: Any = None

    async def close(self) -> None:
        if self._admin is not None:
            await closed(self._admin.close())
        if self._reader is not None:
            await closed(self._reader.stop())

    async def topics(self, topics: Collection[str]) -> Topics:
        cluster = await self._client.fetch_all_metadata()
        leaders: dict[str, dict[int, int]] = {}
        for topic in topics:
            if (numbers := cluster.partitions_for_topic(topic)) is not None:
                found = {number: cluster.leader_for_partition(TopicPartition(topic, number)) for number in numbers}
                leaders[topic] = {number: -1 if leader is None else leader for number, leader in found.items()}
        refused = {t: errors.TopicAuthorizationFailedError for t in topics if t in cluster.unauthorized_topics}
        missing = frozenset(topics) - leaders.keys() - refused.keys()
        return Topics(leaders, dict.fromkeys(leaders, ""), missing, dict(refused))

    async def create_topic(self, name: str, partitions: int, replication: int | None) -> tuple[int, str]:
        # without a dict of assignments, NewTopic does not allow the cluster's own replication factor
        new = NewTopic(name, partitions, replication or -1, None if replication else {})
        answer = await (await self._admin_client()).create_topics([new])
        ((_, code, *text),) = answer.topic_errors
        return code, (text[0] or "") if text else ""

    async def offsets(self, partitions: Collection[Partition], time: int) -> dict[Partition, int]:
        if self._reader is None:
            self._reader = self._consumer()
            await self._reader.start()
        asked = [TopicPartition(*name) for name in partitions]
        if time == EARLIEST:
            found = await self._reader.beginning_offsets(asked)
        elif time == LATEST:
            found = await self._reader.end_offsets(asked)
        else:
            times = await self._reader.offsets_for_times(dict.fromkeys(asked, time))
            found = {partition: -1 if at is None else at.offset for partition, at in times.items()}
        return {(partition.topic, partition.partition): offset for partition, offset in found.items()}

    async def groups(self) -> list[str]:
        found = await (await self._admin_client()).list_consumer_groups()
        return sorted({name for name, kind in found if kind in ("", "consumer")})

    async def members(self, group: str) -> list[str]:
        (answer,) = await (await self._admin_client()).describe_consumer_groups([group])
        ((_, _, _, _, _, members, *_),) = answer.groups
        return [f"{client} at {host.lstrip('/')}" for _, client, host, *_ in members]

    async def delete_group(self, group: str) -> None:
        raise KafkaFault(
            f"the group {group} can't be deleted with this version of aiokafka; use Kafka's own tools", retry=False
        )

    async def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, tuple[int | None, str]]:
        asked = [TopicPartition(*name) for name in partitions]
        answer = await (await self._admin_client()).list_consumer_group_offsets(group, partitions=asked)
        found: dict[Partition, tuple[int | None, str]] = dict.fromkeys(partitions, (None, ""))
        for partition, at in answer.items():
            name = (partition.topic, partition.partition)
            found[name] = (at.offset, at.metadata or "") if at.offset >= 0 else (None, "")
        return found

    async def commit(self, group: str, offsets: Mapping[Partition, int], metadata: Mapping[Partition, str]) -> None:
        async with self._member(group, offsets) as consumer:
            try:
                await consumer.commit({TopicPartition(*n): (at, metadata.get(n, "")) for n, at in offsets.items()})
            except _MEMBERS as error:
                raise GroupActive(group) from error

    @asynccontextmanager
    async def _member(self, group: str, partitions: Collection[Partition]) -> AsyncIterator[Any]:
        """A consumer with these partitions, which does not join the group."""
        consumer = self._consumer(group_id=group)
        consumer.assign([TopicPartition(*name) for name in partitions])
        try:
            await consumer.start()
            yield consumer
        finally:
            await closed(consumer.stop())

    def _consumer(self, **options: Any) -> Any:
        return AIOKafkaConsumer(
            **client_options(self._config), enable_auto_commit=False, isolation_level="read_committed", **options
        )

    async def _admin_client(self) -> Any:
        if self._admin is None:
            self._admin = AIOKafkaAdminClient(**client_options(self._config))
            await self._admin.start()
        return self._admin
