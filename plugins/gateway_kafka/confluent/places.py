"""A partition that is ours, and where its reading begins: at the committed offset, or at the beginning where there is
none or it is no longer there."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

from ..client import Partition, Record, gap, id_of, is_of_another, made_anew
from ..topics import Ids

_log = logging.getLogger("tidegate.kafka")
_TRIES, _WAIT_S = 6, 1.0


class Place:
    """An assignment of a partition to us, of the topic with this `id` ("" where that is not known). Assigned anew it is
    another one.

    On the loop: `paused`; `held` are batches that came while it was; `stopped`, librdkafka was told to pause.
    """

    __slots__ = ("held", "id", "kept", "name", "next", "paused", "records", "stopped")

    def __init__(self, name: Partition, id: str = "") -> None:
        self.name = name
        self.id = id
        self.records: list[Record] = []  # the thread's, of the batch in work
        self.next = 0  # the thread's: the offset behind the last record
        self.paused = False
        self.stopped = False
        self.held: deque[tuple[list[Record], int]] = deque()
        self.kept = 0


class Starts:
    """Finds out where to begin. All methods block; `wait` does so for so many seconds, and is True where there is no
    time left."""

    def __init__(self, group: str, timeout_s: float, wait: Callable[[float], bool]) -> None:
        self._group = group
        self._timeout_s = timeout_s
        self._wait = wait

    def committed(self, client: Any, partitions: Sequence[Any], ids: Ids) -> dict[Place, int]:
        """The first offset of each; `ids` are those of the topics, as far as known. Raises `KafkaException` where the
        group can't be asked."""
        offsets: dict[Partition, int | None] = {}
        places: dict[Partition, Place] = {}
        anew: dict[Partition, int] = {}
        asked = [TopicPartition(p.topic, p.partition) for p in partitions]
        for one in client.committed(asked, timeout=self._timeout_s) if asked else ():
            if one.error is not None:
                raise KafkaException(one.error)
            name = (one.topic, one.partition)
            id = ids.get(one.topic) or ""
            places[name] = Place(name, id or id_of(one.metadata))
            offsets[name] = one.offset if one.offset >= 0 else None
            if one.offset >= 0 and is_of_another(one.metadata, id):
                anew[name] = one.offset
                offsets[name] = None
        found = self.checked(client, offsets)
        for name, offset in anew.items():
            _log.error("consumer group %s: %s", self._group, made_anew(name, offset, max(found[name], 0)))
        return {places[name]: offset for name, offset in found.items()}

    def checked(self, client: Any, offsets: Mapping[Partition, int | None]) -> dict[Partition, int]:
        """Each offset, or the partition's beginning where there is none or it can't be read; then the log says what is
        gone.

        After a change of leader the end that is told may lag behind what was read before: it is asked for again before
        anything is concluded from it."""
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
                        _log.error("consumer group %s: %s", self._group, gap(name, offset, beginning, end))
                del asked[name]
        return found
