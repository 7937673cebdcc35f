"""Commits of an aiokafka consumer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
from aiokafka import errors
from aiokafka.structs import TopicPartition

from ..client import Partition
from .faults import fault_of

_NOT_OURS = (  # the partitions have gone to someone else, who reads from what was committed before
    errors.CommitFailedError,
    errors.IllegalStateError,
    errors.RebalanceInProgressError,
    errors.UnknownMemberIdError,
    errors.IllegalGenerationError,
)


async def commit(consumer: Any, offsets: Mapping[Partition, int], group: str, limit_s: float) -> None:
    """Raises `KafkaFault`, within `limit_s`; that the partitions are no longer ours is none."""
    if not offsets:
        return
    try:
        with anyio.fail_after(limit_s):
            await consumer.commit({TopicPartition(*name): offset for name, offset in offsets.items()})
    except _NOT_OURS:
        pass
    except (errors.KafkaError, OSError) as error:  # TimeoutError is an OSError
        raise fault_of(error, f"commit of group {group}") from error
