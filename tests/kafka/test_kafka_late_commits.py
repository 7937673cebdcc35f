"""A commit that aiokafka repeats, while the group works without its assignment."""

from __future__ import annotations

import anyio
import pytest
from aiokafka.consumer.subscription_state import Assignment
from aiokafka.errors import CommitFailedError, CoordinatorLoadInProgressError
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from gateway_kafka.aio.session import close, connected
from gateway_kafka.client_config import KafkaConfig

from tests.kafka_broker import KafkaBroker

HERE = TopicPartition("late-commits", 0)


@pytest.mark.anyio
@pytest.mark.parametrize("again", [False, True], ids=["same assignment", "assigned again"])
async def test_a_commit_is_not_repeated_for_an_assignment_that_is_over(
    kafka: KafkaBroker, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, _ = await connected(KafkaConfig(bootstrap=(kafka.bootstrap,)), "late-commits", 10.0)
    coordinator, assignment = consumer._coordinator, Assignment([HERE])
    requests = 0

    async def answer(request: object) -> object:
        nonlocal requests
        requests += 1
        if again:
            assignment._unassign()  # the consumer has joined again before the answer
        raise CoordinatorLoadInProgressError if requests == 1 else CommitFailedError

    monkeypatch.setattr(coordinator, "generation", 7)
    monkeypatch.setattr(coordinator, "_send_req", answer)
    try:
        with anyio.fail_after(10), pytest.raises(CommitFailedError):
            await coordinator.commit_offsets(assignment, {HERE: OffsetAndMetadata(5, "")})
    finally:
        monkeypatch.undo()
        await close(consumer)
    assert requests == (1 if again else 2)
