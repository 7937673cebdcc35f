"""Where reading begins: at the committed offset, or at the beginning where there is none or it is no longer there."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, NamedTuple

from aiokafka.structs import TopicPartition

from ..client import gap


class Starts(NamedTuple):
    """The first offset of each partition; those to seek to because the committed one can't be read; what to tell."""

    offsets: dict[TopicPartition, int]
    sought: dict[TopicPartition, int]
    gaps: list[str]


async def first_offsets(consumer: Any, partitions: Collection[TopicPartition]) -> Starts:
    """Asks the cluster. Raises aiokafka's errors.

    A committed offset behind the end is no reason to go back: after a change of leader the end that is told may lag
    behind what was read before. If it is really not there, the first fetch says so.
    """
    found = Starts({}, {}, [])
    if not partitions:
        return found
    order = sorted(partitions)
    committed = await asyncio.gather(*map(consumer.committed, order))
    beginnings = await consumer.beginning_offsets(order)
    for partition, offset in zip(order, committed, strict=True):
        start = offset
        if offset is None or offset < beginnings[partition]:
            start = found.sought[partition] = beginnings[partition]
            if offset is not None:
                found.gaps.append(gap(partition, offset, beginnings[partition], offset))
        found.offsets[partition] = start
    return found


async def moved(consumer: Any, partition: TopicPartition, offset: int | None) -> str:
    """Goes on at the beginning of a partition whose next offset can't be read; what to tell about it."""
    beginning = (await consumer.beginning_offsets([partition]))[partition]
    end = (await consumer.end_offsets([partition]))[partition]
    consumer.seek(partition, beginning)
    return "" if offset is None else gap(partition, offset, beginning, end)
