"""What the consumer does with aiokafka's consumer that its public functions don't offer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import anyio
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import CommitFailedError, UnknownTopicOrPartitionError
from aiokafka.structs import TopicPartition

from ...client import topic_id_in
from ..closing import closed
from ..topic_ids import TopicIds, Topics
from .metadata import look_up

_CLOSE_S = 5.0
_LEAVE_S = 2.0


def assignor() -> Any:
    """aiokafka's sticky assignor keeps its consumer's previous assignment in the class, so each consumer needs a class
    of its own."""
    return type("StickyPartitionAssignor", (StickyPartitionAssignor,), {})


def guard_commits(consumer: Any, known: TopicIds) -> None:
    """Three flaws of aiokafka: a consumer that the group has expelled commits without a generation, which Kafka accepts
    while the group has no members, so that progress made by others would be overwritten. A commit that is repeated
    after the consumer has joined again has the new generation, and would overwrite it, too. And a commit for a
    deleted topic is repeated until a topic of that name exists again."""
    coordinator, client = consumer._coordinator, consumer._client
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


async def committed(consumer: Any, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Any]:
    """The committed offsets of these partitions, with their metadata. Raises aiokafka's errors."""
    found: Mapping[TopicPartition, Any] = await consumer._coordinator.fetch_committed_offsets(list(partitions))
    return found


def position(consumer: Any, partition: TopicPartition) -> int | None:
    """The offset that the consumer reads next, or None if that is not decided or the partition is not assigned."""
    subscription = consumer._subscription.subscription
    assignment = None if subscription is None else subscription.assignment
    state = None if assignment is None else assignment.state_value(partition)
    return state.position if state is not None and state.has_valid_position else None


async def topics_of(consumer: Any, topics: Collection[str]) -> Topics:
    """Looks up these topics. Raises aiokafka's errors."""
    return await look_up(consumer._client, topics)


def expect_partitions(consumer: Any, heard: Topics) -> None:
    """If a topic has other partitions than the consumer knows, it looks them up."""
    client = consumer._client
    numbers = dict.fromkeys((*heard.missing, *heard.refused), 0) | {t: len(found) for t, found in heard.leaders.items()}
    if any(number != len(client.cluster.partitions_for_topic(t) or ()) for t, number in numbers.items()):
        client.force_metadata_update()


async def stop(consumer: Any) -> BaseException | None:
    """See `needs.Ways.stop_consumer`."""
    error: BaseException | None = None
    with anyio.move_on_after(_CLOSE_S, shield=True):
        error = await closed(consumer.stop())
        if error is None:
            return None
    with anyio.move_on_after(_CLOSE_S, shield=True):
        if consumer._coordinator is not None:
            await closed(_leave(consumer._coordinator))
        if consumer._fetcher is not None:
            await closed(consumer._fetcher.close())
        await closed(consumer._client.close())
    return error


async def _leave(coordinator: Any) -> None:
    """aiokafka stops the heartbeats last, and a closed client connects again: heartbeats of a consumer that did not
    close in time would keep running, and at the next rebalance the group would wait for a member that never joins."""
    for task in (coordinator._coordination_task, coordinator._heartbeat_task, coordinator._commit_refresh_task):
        if task is not None:
            task.cancel()
    with anyio.move_on_after(_LEAVE_S):
        await coordinator._maybe_leave_group()
