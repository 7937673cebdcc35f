"""What the plugin needs of aiokafka beyond producing and consuming. There are two ways to have it; `ways` chooses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from aiokafka.structs import TopicPartition

from ..client import Partition
from ..client_config import KafkaConfig
from .topic_ids import TopicIds, Topics

EARLIEST, LATEST = -2, -1
"""In place of a timestamp: the beginning of a partition, and its last stable offset."""

Ended = Callable[[BaseException | None], None]
Outgoing = tuple[TopicPartition, Any, Ended]
"""A partition, a filled builder of aiokafka's, and the function that takes the outcome of this batch."""


class Direct(Protocol):
    """Sends batches of a producer without its task."""

    allowed: bool

    def ready(self, broker: int) -> bool:
        """Whether a request to this broker can be written at once."""

    def free(self, partition: TopicPartition) -> bool:
        """Whether no batch of this partition is under way."""

    def send(self, broker: int, outgoing: Sequence[Outgoing]) -> None:
        """Sends these batches in one request to a broker that is ready, and leads their partitions, which are free."""

    async def close(self) -> None:
        """Forgets what is in flight."""


class AdminRequests(Protocol):
    """What administration asks of a cluster. Raises aiokafka's errors, and `KafkaFault` for what it can't do."""

    async def close(self) -> None: ...

    async def topics(self, topics: Collection[str]) -> Topics:
        """Looks up these topics; the client takes over their leaders."""

    async def create_topic(self, name: str, partitions: int, replication: int | None) -> tuple[int, str]:
        """Returns Kafka's error code and the broker's text."""

    async def offsets(self, partitions: Collection[Partition], time: int) -> dict[Partition, int]:
        """The first offset with this timestamp (Unix milliseconds) or a later one of each partition, -1 if there is
        none; `time` may also be `EARLIEST` or `LATEST`."""

    async def groups(self) -> list[str]:
        """The names of all consumer groups, sorted."""

    async def members(self, group: str) -> list[str]:
        """The members of a group, by client id and address."""

    async def delete_group(self, group: str) -> None:
        """Raises `GroupActive` if it has members; a group that does not exist is no error."""

    async def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, tuple[int | None, str]]:
        """The committed offset of each partition, or None, and its metadata."""

    async def commit(self, group: str, offsets: Mapping[Partition, int], metadata: Mapping[Partition, str]) -> None:
        """Raises `GroupActive` if the group has members."""


class Ways(Protocol):
    """What differs between the versions of aiokafka that the plugin knows and those it does not know. A `client` is an
    `AIOKafkaClient`, a `consumer` an `AIOKafkaConsumer`, a `producer` an `AIOKafkaProducer`."""

    # -- connections

    def guard(self, client: Any) -> TopicIds:
        """For a new client: it notices connections that are just closed, and its lookups create no topics. Returns the
        ids of the topics that it looks up."""

    async def probe(self, config: KafkaConfig, host: str, port: int, options: Mapping[str, Any]) -> None:
        """Connects to one server and disconnects. `options` are those of a connection. Raises aiokafka's errors,
        `OSError` and `ValueError`."""

    def addresses(self, bootstrap: Sequence[str]) -> list[tuple[str, int]]:
        """Hosts and ports of bootstrap servers, in any order."""

    def requests(self, client: Any, config: KafkaConfig) -> AdminRequests:
        """Administration with a client that is connected."""

    # -- consumers

    def assignment_options(self) -> dict[str, Any]:
        """How partitions are assigned, as arguments for a new consumer."""

    def guard_consumer(self, consumer: Any) -> TopicIds:
        """`guard` for a new consumer."""

    def guard_started(self, consumer: Any) -> None:
        """For a consumer that has started, but has no topics yet: it reads all records."""

    def guard_commits(self, consumer: Any, known: TopicIds) -> None:
        """For a consumer of a group that has started: it commits nothing that it does not own."""

    async def topics(self, consumer: Any, topics: Collection[str]) -> Topics:
        """Looks up these topics."""

    def expect_partitions(self, consumer: Any, heard: Topics) -> None:
        """Looks up partitions that the consumer does not know yet."""

    async def committed(self, consumer: Any, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Any]:
        """The committed offsets, as far as there are any, each an `OffsetAndMetadata`."""

    async def position(self, consumer: Any, partition: TopicPartition) -> int | None:
        """The next offset to read, or None if it is not known yet or the partition is not assigned."""

    async def stop_consumer(self, consumer: Any) -> BaseException | None:
        """Leaves the group, if the cluster can be reached within a few seconds. Returns what aiokafka raised."""

    # -- producers

    def guard_producer(self, producer: Any) -> None:
        """For a new producer: it notices connections that are just closed."""

    def direct(self, producer: Any, allowed: bool) -> Direct:
        """`allowed` is false if aiokafka has to send everything."""

    async def stop_producer(self, producer: Any, given_up: bool) -> None:
        """Stops within seconds; at once, without what is in flight, if it was given up. Raises nothing of aiokafka's,
        not even the cancellations of its own tasks."""
