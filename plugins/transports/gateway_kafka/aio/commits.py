"""Offset commits of an aiokafka consumer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
from aiokafka import errors
from aiokafka.structs import TopicPartition

from ..client import Begins, Partition, offset_metadata
from .faults import fault_of

_NOT_OURS = (  # another member has the partitions now, and reads from the last committed offset
    errors.CommitFailedError,
    errors.IllegalStateError,
    errors.RebalanceInProgressError,
    errors.UnknownMemberIdError,
    errors.IllegalGenerationError,
)


async def commit(
    consumer: Any, offsets: Mapping[Partition, int], ids: Mapping[str, str], begins: Begins, group: str, limit_s: float
) -> None:
    """Raises `KafkaFault`, within `limit_s`. It is not an error if the partitions now belong to another member. `ids`
    are the ids of the topics that the offsets belong to."""
    if not offsets:
        return
    try:
        with anyio.fail_after(limit_s):
            await consumer.commit(
                {
                    TopicPartition(*n): (offset, offset_metadata(ids.get(n[0], ""), begins.get(n)))
                    for n, offset in offsets.items()
                }
            )
    except _NOT_OURS:
        pass
    except (errors.KafkaError, OSError) as error:  # TimeoutError is an OSError
        raise fault_of(error, f"commit of group {group}") from error
