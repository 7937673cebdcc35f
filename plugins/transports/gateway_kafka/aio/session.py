"""Creates and closes aiokafka consumers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import CommitFailedError, KafkaError, UnknownTopicOrPartitionError

from ..client import topic_id_in
from ..client_config import KafkaConfig
from .closing import closed
from .faults import check_token, fault_of, probe
from .lenient import install
from .metadata import TopicIds, only_reading
from .options import client_options, connect_limit_s

_CLOSE_S = 5.0
_LEAVE_S = 2.0
_FETCH_WAIT_MS = 100  # a resumed partition waits for the fetch in progress
_REBALANCE_S = 75.0  # longer than members may take to give up partitions
_METADATA_S = 60.0  # how soon new partitions are discovered
_FOR_EVER_MS = 2**31 - 1


async def connected(config: KafkaConfig, group: str, session_s: float) -> tuple[Any, TopicIds]:
    """A consumer that is connected but has no topics yet, and the topic ids it learns. Raises `KafkaFault`."""
    install()
    await check_token(config)
    consumer = AIOKafkaConsumer(
        **client_options(config),
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="none",  # we seek to the beginning ourselves, to log which records are missing
        isolation_level="read_committed",
        partition_assignment_strategy=[_assignor()],
        session_timeout_ms=round(session_s * 1000),
        heartbeat_interval_ms=round(min(1.0, session_s / 3) * 1000),
        rebalance_timeout_ms=round(max(session_s, _REBALANCE_S) * 1000),
        max_poll_interval_ms=_FOR_EVER_MS,  # we poll continuously; a paused partition is no reason to leave
        metadata_max_age_ms=round(_METADATA_S * 1000),
        fetch_max_wait_ms=_FETCH_WAIT_MS,
    )
    known = only_reading(consumer._client)
    try:
        with anyio.fail_after(connect_limit_s(config)):
            await consumer.start()
    except BaseException as error:
        await close(consumer)
        if not isinstance(error, KafkaError | OSError):  # TimeoutError is an OSError
            raise
        await probe(config)
        raise fault_of(error, f"Kafka at {','.join(config.bootstrap)}") from error
    _guard_commits(consumer._coordinator, consumer._client, known)
    return consumer, known


def _guard_commits(coordinator: Any, client: Any, known: TopicIds) -> None:
    """Three flaws of aiokafka: a consumer that the group has expelled commits without a generation, which Kafka accepts
    while the group has no members, so that progress made by others would be overwritten. A commit that is repeated
    after the consumer has joined again has the new generation, and would overwrite it, too. And a commit for a
    deleted topic is repeated until a topic of that name exists again."""
    write = coordinator._do_commit_offsets

    async def guarded(assignment: Any, offsets: Mapping[Any, Any]) -> None:
        if coordinator.generation < 0 or not assignment.active:
            raise CommitFailedError
        there = {p: o for p, o in offsets.items() if not known.is_gone(p.topic, topic_id_in(o.metadata))}
        try:
            await write(assignment, there)
        except UnknownTopicOrPartitionError:
            client.force_metadata_update()
            raise

    coordinator._do_commit_offsets = guarded


def _assignor() -> type[StickyPartitionAssignor]:
    """aiokafka's sticky assignor keeps its consumer's previous assignment in the class, so each consumer needs a class
    of its own."""
    return type("StickyPartitionAssignor", (StickyPartitionAssignor,), {})


async def close(consumer: Any) -> None:
    """Leaves the group, if the cluster can be reached within a few seconds. Raises what aiokafka raises."""
    error: BaseException | None = None
    with anyio.move_on_after(_CLOSE_S, shield=True):
        error = await closed(consumer.stop())
        if error is None:
            return
    with anyio.move_on_after(_CLOSE_S, shield=True):
        if consumer._coordinator is not None:
            await closed(_leave(consumer._coordinator))
        if consumer._fetcher is not None:
            await closed(consumer._fetcher.close())
        await closed(consumer._client.close())
    if isinstance(error, Exception):
        raise error


async def _leave(coordinator: Any) -> None:
    """aiokafka stops the heartbeats last, and a closed client connects again: heartbeats of a consumer that did not
    close in time would keep running, and at the next rebalance the group would wait for a member that never joins."""
    for task in (coordinator._coordination_task, coordinator._heartbeat_task, coordinator._commit_refresh_task):
        if task is not None:
            task.cancel()
    with anyio.move_on_after(_LEAVE_S):
        await coordinator._maybe_leave_group()
