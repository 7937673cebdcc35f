"""A partition that is ours, and where its reading begins: at the committed offset, or at the beginning where there is
none or it is no longer there."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

from ..client import Partition, Record, gap

_log = logging.getLogger("tidegate.kafka")
_TRIES, _WAIT_S = 6, 1.0


class Place:
    """An assignment of a partition to us. Assigned anew it is another one.

    On the loop: `paused`; `held` are batches that came while it was; `stopped`, librdkafka was told to pause.
    """

    __slots__ = ("held", "kept", "name", "paused", "records", "stopped")

    def __init__(self, name: Partition) -> None:
        self.name = name
        self.records: list[Record] = []  # the thread's, of the batch in work
        self.paused = False
        self.stopped = False
        self.held: deque[tuple[list[Record], int]] = deque()
        self.kept = 0


def starts(client: Any, partitions: Sequence[Any], group: str, timeout_s: float) -> dict[Partition, int]:
    """The first offset of each. Blocks; raises `KafkaException` where the group can't be asked."""
    found: dict[Partition, int] = {}
    for one in client.committed([TopicPartition(p.topic, p.partition) for p in partitions], timeout=timeout_s):
        if one.error is not None:
            raise KafkaException(one.error)
        name = (one.topic, one.partition)
        found[name] = checked(client, name, one.offset if one.offset >= 0 else None, group, timeout_s)
    return found


def checked(client: Any, name: Partition, offset: int | None, group: str, timeout_s: float) -> int:
    """The offset, or the partition's beginning where it can't be read; then the log says what is gone.

    After a change of leader the end that is told may lag behind what was read before: it is asked for again before
    anything is concluded from it."""
    try:
        for _ in range(_TRIES):
            beginning, end = client.get_watermark_offsets(TopicPartition(*name), timeout=timeout_s)
            if offset is None or offset <= end:
                break
            time.sleep(_WAIT_S)
    except KafkaException:
        return OFFSET_BEGINNING if offset is None else offset
    if offset is None:
        return int(beginning)
    if not beginning <= offset <= end:
        _log.error("consumer group %s: %s", group, gap(name, offset, beginning, end))
        return int(beginning)
    return offset
