"""The ways for versions of aiokafka that the plugin does not know: public functions only. `docs/discussion/aiokafka.md`
says what does not work so."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any

import anyio
from aiokafka import AIOKafkaClient
from aiokafka.errors import IllegalStateError, KafkaConnectionError, SaslAuthenticationFailed
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from ..client_config import KafkaConfig
from .closing import closed
from .needs import Outgoing
from .public_requests import PublicRequests
from .topic_ids import TopicIds, Topics

_POSITION_S = 0.02
_CLOSE_S = 5.0
_GIVEN_UP_S = 0.1

_closing: set[asyncio.Task[BaseException | None]] = set()


class PublicWays:
    """`needs.Ways` without private parts of aiokafka."""

    def guard(self, client: Any) -> TopicIds:
        return TopicIds()

    def guard_consumer(self, consumer: Any) -> TopicIds:
        return TopicIds()

    def guard_started(self, consumer: Any) -> None:
        return

    def guard_commits(self, consumer: Any, known: TopicIds) -> None:
        return

    def guard_producer(self, producer: Any) -> None:
        return

    async def probe(self, config: KafkaConfig, host: str, port: int, options: Mapping[str, Any]) -> None:
        client = AIOKafkaClient(bootstrap_servers=[f"[{host}]:{port}" if ":" in host else f"{host}:{port}"], **options)
        try:
            await client.bootstrap()
            rejected = not client.cluster.brokers()  # RFC 7628 section 3.2.3
        except KafkaConnectionError as error:
            async with asyncio.timeout(config.request_timeout_s):
                _, writer = await asyncio.open_connection(host, port)  # has the reason, if the server can't be reached
            writer.close()
            raise KafkaConnectionError("connected, but can't log in; aiokafka logs why (log level debug)") from error
        finally:
            await client.close()
        if rejected and config.sasl is not None and config.sasl.mechanism == "OAUTHBEARER":
            raise SaslAuthenticationFailed("the token is not accepted")

    def addresses(self, bootstrap: Sequence[str]) -> list[tuple[str, int]]:
        parts = [server.rpartition(":") for server in bootstrap]
        return [(host.strip("[]"), int(port)) for host, _, port in parts]

    def requests(self, client: Any, config: KafkaConfig) -> PublicRequests:
        return PublicRequests(client, config)

    def assignment_options(self) -> dict[str, Any]:
        return {}

    async def topics(self, consumer: Any, topics: Collection[str]) -> Topics:
        known = await consumer.topics()
        there = [topic for topic in topics if topic in known]
        return Topics(
            {topic: dict.fromkeys(consumer.partitions_for_topic(topic) or (), -1) for topic in there},
            dict.fromkeys(there, ""),
            frozenset(topics) - known,
            {},
        )

    def expect_partitions(self, consumer: Any, heard: Topics) -> None:
        return

    async def committed(self, consumer: Any, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Any]:
        found = {partition: await consumer.committed(partition) for partition in partitions}
        return {p: OffsetAndMetadata(offset, "") for p, offset in found.items() if offset is not None}

    async def position(self, consumer: Any, partition: TopicPartition) -> int | None:
        with anyio.move_on_after(_POSITION_S):  # it waits for a position that is not decided yet
            try:
                return int(await consumer.position(partition))
            except IllegalStateError:
                return None
        return None

    async def stop_consumer(self, consumer: Any) -> BaseException | None:
        return await _stopped(consumer.stop(), _CLOSE_S)

    def direct(self, producer: Any, allowed: bool) -> NotDirect:
        return NotDirect()

    async def stop_producer(self, producer: Any, given_up: bool) -> None:
        await _stopped(producer.stop(), _GIVEN_UP_S if given_up else _CLOSE_S)


async def _stopped(stopping: Coroutine[Any, Any, object], limit_s: float) -> BaseException | None:
    """Waits as long; what takes longer keeps running without us, since aiokafka stops a client once only."""
    task = asyncio.ensure_future(closed(stopping))
    _closing.add(task)
    task.add_done_callback(_closing.discard)
    with anyio.move_on_after(limit_s, shield=True):
        return await asyncio.shield(task)
    return None


class NotDirect:
    """`needs.Direct` that leaves all to aiokafka's own task."""

    allowed = False

    def ready(self, broker: int) -> bool:
        return False

    def free(self, partition: TopicPartition) -> bool:
        return False

    def send(self, broker: int, outgoing: Sequence[Outgoing]) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        return
