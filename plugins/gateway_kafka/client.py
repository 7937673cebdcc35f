"""What the two client libraries look like to the rest of the plugin: a producer, a consumer, and their faults.

Everything here is called on the event loop's thread, and calls back on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from anyio.abc import TaskGroup

Partition = tuple[str, int]
"""Topic and number."""
Headers = list[tuple[str, bytes]]


class KafkaFault(Exception):
    """Kafka did not do what it was asked. The text is one line for people.

    `retry`        the same may succeed later (False: a record that is too large, no such authorization).
    `credentials`  the cluster does not accept who we are (SASL or TLS): nothing works until the config is changed.
    `local`        this machine, or this process, is short of something: the cluster was not asked.
    """

    def __init__(self, text: str, *, retry: bool = True, credentials: bool = False, local: bool = False) -> None:
        super().__init__(text)
        self.retry = retry
        self.credentials = credentials
        self.local = local


class Record:
    """One record as it was read. A null key, value or header value is None."""

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


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """What a record that waits to be written takes, in bytes, about."""
    size = 200 + (len(key) if key else 0) + (len(value) if value else 0)
    for _, text in headers:
        size += len(text)
    return size


class Producer(Protocol):
    """Writes records: idempotent, acknowledged by all in-sync replicas. Records of one key (and those without, of one
    partition) keep the order in which `send` was called. A key's partition is that of Kafka's Java client (murmur2)."""

    @property
    def fault(self) -> KafkaFault | None:
        """What is wrong at the moment; None while records can be written."""

    @property
    def waiting(self) -> tuple[int, int]:
        """The records that are not answered yet, and their bytes."""

    async def start(self, tasks: TaskGroup) -> None:
        """Begins to connect, and returns once connected or after a few seconds: a cluster that is away is no error, it
        is tried again and again. Raises `KafkaFault` with `credentials` where the cluster does not accept them."""

    async def stop(self) -> None:
        """Waits for what is under way (may be cancelled), and closes."""

    def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, done: Acknowledged) -> None:
        """Writes one record. `done(None)` follows when it is acknowledged, else `done(fault)`: within
        `delivery_timeout_s` (the connection's setting) at the latest."""


class Member(Protocol):
    """Told by a consumer what happens to it. The partitions of one consumer are told apart by (topic, number)."""

    def assigned(self, partitions: Mapping[Partition, int]) -> None:
        """These partitions are ours now; the first record of each will be at or after this offset (the committed one).
        Also called, with nothing, when this member has joined the group and there was no partition left for it."""

    async def revoked(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """These partitions are about to go to another member. Returns the offsets to commit for them (next to read),
        after waiting a moment for what is under way. The consumer commits them before it lets go."""

    def lost(self, partitions: Iterable[Partition]) -> None:
        """These partitions have gone without notice: nothing can be committed for them any more."""

    def fetched(self, partition: Partition, records: Sequence[Record], end: int) -> None:
        """The next records of a partition, in order; `end` is the offset that the partition's next record will get, as
        far as known. Never called for a paused partition, nor for one that is not assigned."""

    def passed(self, partition: Partition, offset: int) -> None:
        """There is nothing more to come before this offset: what is there are aborted records, and the marks of
        transactions."""


class Consumer(Protocol):
    """A member of a consumer group, which reads from committed offsets. It commits only what it is told to. A
    partition without committed offset, or whose committed offset is no longer there, is read from its beginning, the
    latter with an error in the log that names the offsets that are gone."""

    @property
    def fault(self) -> KafkaFault | None:
        """What is wrong at the moment; None while it can read."""

    async def start(self, tasks: TaskGroup) -> None:
        """As `Producer.start`. It joins the group in the background."""

    async def stop(self) -> None:
        """Tells the member that all is revoked, commits what it answers, and leaves the group."""

    def pause(self, partition: Partition) -> None:
        """No records of this partition until `resume`. Without effect where it is not assigned."""

    def resume(self, partition: Partition) -> None: ...

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Makes these positions durable (next to read). Raises `KafkaFault`; what no longer belongs to this member is
        not committed, and that is no error."""


_TAG = "topic-id="


def tag(id: str) -> str:
    """What is committed with an offset: the id of the topic that it belongs to. "" where that is not known."""
    return _TAG + id if id else ""


def id_of(metadata: str | None) -> str:
    """The id in what was committed with an offset; "" where there is none."""
    return metadata.removeprefix(_TAG) if metadata and metadata.startswith(_TAG) else ""


def is_of_another(metadata: str | None, id: str) -> bool:
    """Whether an offset that was committed with this metadata belongs to a deleted topic of the same name, and not to
    the one with this id."""
    return bool(id) and id_of(metadata) not in ("", id)


def made_anew(name: Partition, offset: int, beginning: int) -> str:
    """What to tell of an offset of a deleted topic, in one line."""
    topic, number = name
    return (
        f"topic {topic}, partition {number}: the committed offset, {offset}, is that of a deleted topic of this name;"
        f" reads the new one from its beginning, {beginning}"
    )


def gap(name: Partition, offset: int, beginning: int, end: int) -> str:
    """What is missing of a partition whose next record to read was `offset`, in one line."""
    topic, number = name
    place = f"topic {topic}, partition {number}"
    if offset < beginning:
        return f"{place}: the records {offset} to {beginning - 1} are gone before they were read (retention)"
    return (
        f"{place}: the next record to read was {offset}, but the partition ends at {end}: it was made anew or cut off;"
        f" reads from its beginning, {beginning}"
    )
