"""Commits of an aiokafka consumer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
from aiokafka import errors
from aiokafka.structs import TopicPartition

from ..client import Partition, tag
from .faults import fault_of

_NOT_OURS = (  # the partitions have gone to someone else, who reads from what was committed before
    errors.CommitFailedError,
    errors.IllegalStateError,
    errors.RebalanceInProgressError,
    errors.UnknownMemberIdError,
    errors.IllegalGenerationError,
)


async def commit(
    consumer: Any, offsets: Mapping[Partition, int], ids: Mapping[str, str], group: str, limit_s: float
) -> None:
    """Raises `KafkaFault`, within `limit_s`; that the partitions are no longer ours is none. `ids` are those of the
    topics that the offsets belong to."""
    if not offsets:
        return
    try:
        with anyio.fail_after(limit_s):
            await consumer.commit(
                {TopicPartition(*n): (offset, tag(ids.get(n[0], ""))) for n, offset in offsets.items()}
            )
    except _NOT_OURS:
        pass
    except (errors.KafkaError, OSError) as error:  # TimeoutError is an OSError
        raise fault_of(error, f"commit of group {group}") from error
