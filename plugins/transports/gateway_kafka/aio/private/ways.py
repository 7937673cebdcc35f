"""The ways for known versions of aiokafka."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from aiokafka.errors import KafkaConnectionError, SaslAuthenticationFailed
from aiokafka.structs import TopicPartition

from ...client_config import KafkaConfig
from ..topic_ids import TopicIds, Topics
from . import connections, consumers, metadata, producers
from .direct_sender import DirectSender
from .lenient import read_leniently
from .requests import PrivateRequests


class PrivateWays:
    """`needs.Ways` with private parts of aiokafka."""

    def guard(self, client: Any) -> TopicIds:
        connections.guard(client)
        return metadata.only_reading(client)

    async def probe(self, config: KafkaConfig, host: str, port: int, options: Mapping[str, Any]) -> None:
        connection = await connections.connect(host, port, **options)
        try:
            if config.sasl is not None and config.sasl.mechanism == "OAUTHBEARER":
                await _check_token(connection)
        finally:
            await connection.close()

    def addresses(self, bootstrap: Sequence[str]) -> list[tuple[str, int]]:
        return connections.addresses(bootstrap)

    def requests(self, client: Any, config: KafkaConfig) -> PrivateRequests:
        return PrivateRequests(client, config.request_timeout_s)

    def assignment_options(self) -> dict[str, Any]:
        return {"partition_assignment_strategy": [consumers.assignor()]}

    def guard_consumer(self, consumer: Any) -> TopicIds:
        return self.guard(consumer._client)

    def guard_started(self, consumer: Any) -> None:
        read_leniently(consumer)

    def guard_commits(self, consumer: Any, known: TopicIds) -> None:
        consumers.guard_commits(consumer, known)

    async def topics(self, consumer: Any, topics: Collection[str]) -> Topics:
        return await consumers.topics_of(consumer, topics)

    def expect_partitions(self, consumer: Any, heard: Topics) -> None:
        consumers.expect_partitions(consumer, heard)

    async def committed(self, consumer: Any, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Any]:
        return await consumers.committed(consumer, partitions)

    async def position(self, consumer: Any, partition: TopicPartition) -> int | None:
        return consumers.position(consumer, partition)

    async def stop_consumer(self, consumer: Any) -> BaseException | None:
        return await consumers.stop(consumer)

    def guard_producer(self, producer: Any) -> None:
        connections.guard(producer.client)

    def direct(self, producer: Any, allowed: bool) -> DirectSender:
        return DirectSender(producer, allowed)

    async def stop_producer(self, producer: Any, given_up: bool) -> None:
        await producers.stop(producer, given_up)


async def _check_token(connection: Any) -> None:
    """RFC 7628 section 3.2.3: aiokafka mistakes the rejection of a token for the response to a request."""
    try:
        brokers = await connections.ask_brokers(connection)
    except KafkaConnectionError as error:
        raise SaslAuthenticationFailed("the token is not accepted") from error
    if not brokers:
        raise SaslAuthenticationFailed("the token is not accepted")
