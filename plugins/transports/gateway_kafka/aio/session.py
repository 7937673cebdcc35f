"""Creates and closes aiokafka consumers."""

from __future__ import annotations

from typing import Any

import anyio
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from ..client_config import KafkaConfig
from .faults import check_token, fault_of, probe
from .options import client_options, connect_limit_s
from .topic_ids import TopicIds
from .ways import ways

_FETCH_WAIT_MS = 100  # a resumed partition waits for the fetch in progress
_REBALANCE_S = 75.0  # longer than members may take to give up partitions
_METADATA_S = 60.0  # how soon new partitions are discovered
_FOR_EVER_MS = 2**31 - 1


async def connected(config: KafkaConfig, group: str, session_s: float) -> tuple[Any, TopicIds]:
    """A consumer that is connected but has no topics yet, and the topic ids it learns. Raises `KafkaFault`."""
    await check_token(config)
    consumer = AIOKafkaConsumer(
        **client_options(config),
        **ways().assignment_options(),
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="none",  # we seek to the beginning ourselves, to log which records are missing
        isolation_level="read_committed",
        session_timeout_ms=round(session_s * 1000),
        heartbeat_interval_ms=round(min(1.0, session_s / 3) * 1000),
        rebalance_timeout_ms=round(max(session_s, _REBALANCE_S) * 1000),
        max_poll_interval_ms=_FOR_EVER_MS,  # we poll continuously; a paused partition is no reason to leave
        metadata_max_age_ms=round(_METADATA_S * 1000),
        fetch_max_wait_ms=_FETCH_WAIT_MS,
    )
    known = ways().guard_consumer(consumer)
    try:
        with anyio.fail_after(connect_limit_s(config)):
            await consumer.start()
    except BaseException as error:
        await close(consumer)
        if not isinstance(error, KafkaError | OSError):  # TimeoutError is an OSError
            raise
        await probe(config)
        raise fault_of(error, f"Kafka at {','.join(config.bootstrap)}") from error
    ways().guard_started(consumer)
    ways().guard_commits(consumer, known)
    return consumer, known


async def close(consumer: Any) -> None:
    """Leaves the group, if the cluster can be reached within a few seconds. Raises what aiokafka raises."""
    if isinstance(error := await ways().stop_consumer(consumer), Exception):
        raise error
