"""Start offsets: the committed offset, or the beginning if there is none or it is no longer available."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from aiokafka import errors
from aiokafka.structs import TopicPartition

from ..client import is_of_deleted_topic, missing_records, recreated
from .ways import ways


class StartOffsets(NamedTuple):
    """The first offset of each partition, the ones to seek to because the committed offset can't be read, the messages
    to log, and the topics' ids."""

    offsets: dict[TopicPartition, int]
    sought: dict[TopicPartition, int]
    gaps: list[str]
    ids: dict[str, str]


async def first_offsets(consumer: Any, partitions: Collection[TopicPartition]) -> StartOffsets:
    """Asks the cluster. Raises aiokafka's errors.

    A committed offset after the end is no reason to go back: after a change of leader, the reported end may lag behind
    records that were already read. If the offset is really gone, the first fetch fails.
    """
    found = StartOffsets({}, {}, [], {})
    if not partitions:
        return found
    order = sorted(partitions)
    committed = await ways().committed(consumer, order)
    # the ids last: a topic that is recreated meanwhile is detected here or by the later check of the ids
    heard = await ways().topics(consumer, {partition.topic for partition in order})
    if heard.missing:
        raise errors.UnknownTopicOrPartitionError
    found.ids.update(heard.ids)
    beginnings = await consumer.beginning_offsets(order)
    for partition in order:
        beginning = beginnings[partition]
        known = committed.get(partition)
        offset = None if known is None else known.offset
        if (
            known is not None
            and offset is not None
            and is_of_deleted_topic(known.metadata, heard.ids.get(partition.topic, ""))
        ):
            found.gaps.append(recreated(partition, offset, beginning))
            offset = None
        elif offset is not None and offset < beginning:
            found.gaps.append(missing_records(partition, offset, beginning, offset))
            offset = None
        if offset is None:
            offset = found.sought[partition] = beginning
        found.offsets[partition] = offset
    return found


async def reset_to_beginning(consumer: Any, partition: TopicPartition, offset: int | None) -> str:
    """Seeks to the beginning of a partition whose next offset can't be read; returns the message to log."""
    beginning = (await consumer.beginning_offsets([partition]))[partition]
    end = (await consumer.end_offsets([partition]))[partition]
    if partition in consumer.assignment():
        consumer.seek(partition, beginning)
    return "" if offset is None else missing_records(partition, offset, beginning, end)
