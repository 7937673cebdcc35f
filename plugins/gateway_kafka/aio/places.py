"""Where reading begins: at the committed offset, or at the beginning where there is none or it is no longer there."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from aiokafka import errors
from aiokafka.structs import TopicPartition

from ..client import gap, is_of_another, made_anew
from .metadata import look_up


class Starts(NamedTuple):
    """The first offset of each partition; those to seek to because the committed one can't be read; what to tell; the
    ids of the topics."""

    offsets: dict[TopicPartition, int]
    sought: dict[TopicPartition, int]
    gaps: list[str]
    ids: dict[str, str]


async def first_offsets(consumer: Any, partitions: Collection[TopicPartition]) -> Starts:
    """Asks the cluster. Raises aiokafka's errors.

    A committed offset behind the end is no reason to go back: after a change of leader the end that is told may lag
    behind what was read before. If it is really not there, the first fetch says so.
    """
    found = Starts({}, {}, [], {})
    if not partitions:
        return found
    order = sorted(partitions)
    committed = await consumer._coordinator.fetch_committed_offsets(order)
    # the ids last: the offset of a topic that is made anew meanwhile is noticed now, or by who looks at the ids later
    heard = await look_up(consumer._client, {partition.topic for partition in order})
    if heard.missing:
        raise errors.UnknownTopicOrPartitionError
    found.ids.update(heard.ids)
    beginnings = await consumer.beginning_offsets(order)
    for partition in order:
        beginning = beginnings[partition]
        known = committed.get(partition)
        offset = None if known is None else known.offset
        if offset is not None and is_of_another(known.metadata, heard.ids.get(partition.topic, "")):
            found.gaps.append(made_anew(partition, offset, beginning))
            offset = None
        elif offset is not None and offset < beginning:
            found.gaps.append(gap(partition, offset, beginning, offset))
            offset = None
        if offset is None:
            offset = found.sought[partition] = beginning
        found.offsets[partition] = offset
    return found


async def moved(consumer: Any, partition: TopicPartition, offset: int | None) -> str:
    """Goes on at the beginning of a partition whose next offset can't be read; what to tell about it."""
    beginning = (await consumer.beginning_offsets([partition]))[partition]
    end = (await consumer.end_offsets([partition]))[partition]
    if partition in consumer.assignment():
        consumer.seek(partition, beginning)
    return "" if offset is None else gap(partition, offset, beginning, end)
