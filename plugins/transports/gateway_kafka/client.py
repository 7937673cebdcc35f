"""The interface of client libraries to the rest of the plugin: a producer, a consumer, and their faults.

A component of the kind `client` builds a `KafkaClient`. This plugin has the client `aiokafka`; others come from plugins
of their own.

Everything here is called on the event loop's thread, and so are its callbacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from anyio.abc import TaskGroup

from gateway_core.contract.clock import Clock

from .client_config import KafkaConfig, KafkaProducerConfig

Partition = tuple[str, int]
"""Topic and number."""
Headers = list[tuple[str, bytes]]


class KafkaFault(Exception):
    """A Kafka operation failed. The message is one line for people.

    `retry`        a retry may succeed (False for a record that is too large, or a missing authorization)
    `credentials`  the cluster rejects our credentials (SASL or TLS): nothing works until the config changes
    `local`        this machine or process lacks a resource; the cluster is not at fault
    """

    def __init__(self, text: str, *, retry: bool = True, credentials: bool = False, local: bool = False) -> None:
        super().__init__(text)
        self.retry = retry
        self.credentials = credentials
        self.local = local


class GroupActive(KafkaFault):
    """The group has members, and only they can commit."""

    def __init__(self, group: str) -> None:
        super().__init__(f"the group {group} has members; stop them first")


class Record:
    """A record as it was read. A null key, value or header value is None."""

    __slots__ = ("headers", "key", "offset", "timestamp_ms", "value")

    def __init__(
        self,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> None:
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers


Acknowledged = Callable[[KafkaFault | None], None]


class Producer(Protocol):
    """Writes records: idempotent, acknowledged by all in-sync replicas. Records with the same key (or without a key, in
    the same partition) keep the order of the `send` calls. The partition of a key is the one that Kafka's Java client
    chooses (murmur2)."""

    @property
    def fault(self) -> KafkaFault | None:
        """The current fault, or None while records can be written."""

    @property
    def waiting(self) -> tuple[int, int]:
        """The number of unanswered records, and their size in bytes."""

    async def start(self, tasks: TaskGroup) -> None:
        """Begins to connect, and returns once connected or after a few seconds. An unreachable cluster is not an error:
        the connection is retried. Raises `KafkaFault` with `credentials` if the cluster rejects them."""

    async def stop(self) -> None:
        """Waits for the records in flight (may be cancelled), and closes."""

    def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, done: Acknowledged) -> None:
        """Writes one record. Calls `done(None)` when it is acknowledged, or `done(fault)`, within
        `delivery_timeout_s`."""


class Member(Protocol):
    """Receives the events of a consumer. Partitions are identified by (topic, number)."""

    def assigned(self, partitions: Mapping[Partition, int], ids: Mapping[str, str]) -> None:
        """These partitions are now ours; the first record of each is at or after this (committed) offset. Also called
        with no partitions if this member has joined the group and none was left for it. `ids` are those of the topics,
        as far as they are known: a topic that is deleted and created again has another one."""

    async def revoked(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """These partitions are about to move to another member. Waits briefly for events in flight and returns the
        offsets to commit (next to read). The consumer commits them before it gives the partitions up."""

    def lost(self, partitions: Iterable[Partition]) -> None:
        """These partitions were lost without notice: nothing can be committed for them any more."""

    def fetched(self, partition: Partition, records: Sequence[Record], end: int) -> None:
        """The next records of a partition, in order; `end` is the latest known end offset. Never called for a partition
        that is paused or not assigned."""

    def passed(self, partition: Partition, offset: int) -> None:
        """No more records come before this offset: there are only aborted records and transaction markers."""


class Consumer(Protocol):
    """A member of a consumer group, which reads from the committed offsets and commits only the offsets it is given. A
    partition without a committed offset is read from its beginning. So is one whose committed offset is no longer
    available; an error in the log then names the missing offsets."""

    @property
    def fault(self) -> KafkaFault | None:
        """The current fault, or None while it can read."""

    async def start(self, tasks: TaskGroup) -> None:
        """Like `Producer.start`. Joins the group in the background."""

    async def stop(self) -> None:
        """Revokes all partitions from the member, commits the offsets it returns, and leaves the group."""

    def pause(self, partition: Partition) -> None:
        """Delivers no records of this partition until `resume`. No effect if it is not assigned."""

    def resume(self, partition: Partition) -> None: ...

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commits these offsets (next to read). Raises `KafkaFault`; partitions that this member no longer has are
        skipped without an error."""


Begins = Mapping[Partition, int]
"""The offset at which a group began in each partition, as far as it is known."""


class ConsumerMaker(Protocol):
    """Makes a consumer for the member. It commits `begins` along with its offsets."""

    def __call__(
        self,
        config: KafkaConfig,
        *,
        group: str,
        topics: Sequence[str],
        member: Member,
        max_poll_records: int,
        session_timeout_s: float,
        clock: Clock,
        begins: Begins,
    ) -> Consumer: ...


@dataclass(frozen=True, slots=True)
class KafkaClient:
    """A client library: how to make a producer and a consumer of it, which connect when they are started."""

    producer: Callable[[KafkaProducerConfig], Producer]
    consumer: ConsumerMaker


_TAG = "topic-id="
_BEGAN = "began="
_ID = re.compile(
    rf"(?:^|\s){_TAG}([0-9a-f]{{32}})"
)  # confluent_kafka may read on into other memory: an id has 32 digits


def offset_metadata(id: str, began: int | None = None) -> str:
    """The metadata to commit with an offset: the id of its topic, and where the group began, as far as they are known.
    The id comes last: versions that know only ids must not take the rest for a part of it."""
    words = [*(() if began is None else (f"{_BEGAN}{began}",)), *((_TAG + id,) if id else ())]
    return " ".join(words)


def topic_id_in(metadata: str | None) -> str:
    """The topic id in the metadata of an offset, or ""."""
    found = _ID.search(metadata or "")
    return found[1] if found else ""


def began_in(metadata: str | None) -> int | None:
    """Where the group began in the partition, by the metadata of its offset; None if that is not known."""
    word = (metadata or "").partition(" ")[0]
    number = word.removeprefix(_BEGAN) if word.startswith(_BEGAN) else ""
    return int(number) if number.isdecimal() else None


def is_of_deleted_topic(metadata: str | None, id: str) -> bool:
    """Whether an offset with this metadata belongs to a deleted topic of the same name, and not to the topic with this
    id."""
    return bool(id) and topic_id_in(metadata) not in ("", id)


def recreated(name: Partition, offset: int, beginning: int) -> str:
    """The message for an offset of a deleted topic, in one line."""
    topic, number = name
    return (
        f"topic {topic}, partition {number}: the committed offset {offset} belongs to a deleted topic of this name;"
        f" reading the new topic from its beginning, {beginning}"
    )


def missing_records(name: Partition, offset: int, beginning: int, end: int) -> str:
    """The message for the missing records of a partition that was to be read from `offset`, in one line."""
    topic, number = name
    where = f"topic {topic}, partition {number}"
    if offset < beginning:
        return f"{where}: records {offset} to {beginning - 1} were deleted by retention before they were read"
    return (
        f"{where}: the next record to read was {offset}, but the partition ends at {end} (recreated or truncated);"
        f" reading from its beginning, {beginning}"
    )
