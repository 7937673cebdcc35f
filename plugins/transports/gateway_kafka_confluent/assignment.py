"""A partition that is assigned to us, and its start offset: the committed one, or the beginning if there is none or it
is no longer available."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition
from gateway_kafka.client import Partition, Record, is_of_deleted_topic, missing_records, recreated, topic_id_in
from gateway_kafka.topics import Ids

_log = logging.getLogger("tidegate.kafka")
_TRIES, _WAIT_S = 6, 1.0


class Assignment:
    """An assignment of a partition to us; `id` is the id of its topic, or "" if unknown. A new assignment of the same
    partition is another object.

    On the event loop: `paused`; `held` has the batches that came while paused; `stopped` says that librdkafka was told
    to pause.
    """

    __slots__ = ("held", "id", "kept", "name", "next", "paused", "records", "stopped")

    def __init__(self, name: Partition, id: str = "") -> None:
        self.name = name
        self.id = id
        self.records: list[Record] = []  # used by the thread: records of the current batch
        self.next = 0  # used by the thread: the offset after the last record
        self.paused = False
        self.stopped = False
        self.held: deque[tuple[list[Record], int]] = deque()
        self.kept = 0


class StartOffsets:
    """Determines start offsets. All methods block. `wait` sleeps for some seconds, and returns True if there is no time
    left."""

    def __init__(self, group: str, timeout_s: float, wait: Callable[[float], bool]) -> None:
        self._group = group
        self._timeout_s = timeout_s
        self._wait = wait

    def committed(self, client: Any, partitions: Sequence[Any], ids: Ids) -> dict[Assignment, int]:
        """The start offset of each partition; `ids` are the known ids of the topics. Raises `KafkaException` if the
        group's offsets can't be fetched."""
        offsets: dict[Partition, int | None] = {}
        assignments: dict[Partition, Assignment] = {}
        stale: dict[Partition, int] = {}
        asked = [TopicPartition(p.topic, p.partition) for p in partitions]
        for one in client.committed(asked, timeout=self._timeout_s) if asked else ():
            if one.error is not None:
                raise KafkaException(one.error)
            name = (one.topic, one.partition)
            id = ids.get(one.topic) or ""
            metadata = _metadata(one)
            assignments[name] = Assignment(name, id or topic_id_in(metadata))
            offsets[name] = one.offset if one.offset >= 0 else None
            if one.offset >= 0 and is_of_deleted_topic(metadata, id):
                stale[name] = one.offset
                offsets[name] = None
        found = self.checked(client, offsets)
        for name, offset in stale.items():
            _log.error("consumer group %s: %s", self._group, recreated(name, offset, max(found[name], 0)))
        return {assignments[name]: offset for name, offset in found.items()}

    def checked(self, client: Any, offsets: Mapping[Partition, int | None]) -> dict[Partition, int]:
        """Each offset, or the beginning of the partition if there is none or it can't be read. The log then says what
        is missing.

        After a change of leader, the reported end may lag behind records that were already read, so it is fetched again
        before it is trusted.
        """
        found: dict[Partition, int] = {}
        asked = dict(offsets)
        for attempt in range(_TRIES):
            if attempt and (not asked or self._wait(_WAIT_S)):
                break
            for name, offset in list(asked.items()):
                try:
                    beginning, end = client.get_watermark_offsets(TopicPartition(*name), timeout=self._timeout_s)
                except KafkaException:
                    found[name] = OFFSET_BEGINNING if offset is None else offset
                else:
                    found[name] = int(beginning) if offset is None or not beginning <= offset <= end else offset
                    if offset is not None and offset > end and attempt < _TRIES - 1:
                        continue
                    if offset is not None and found[name] != offset:
                        _log.error("consumer group %s: %s", self._group, missing_records(name, offset, beginning, end))
                del asked[name]
        return found


def _metadata(committed: Any) -> str:
    """The metadata of a committed offset. librdkafka does not end it with a zero, so that confluent_kafka reads on
    until it finds one: what follows is any bytes."""
    try:
        return committed.metadata or ""
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace")
