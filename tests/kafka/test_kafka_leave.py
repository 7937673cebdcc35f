"""A consumer on aiokafka that does not close in time: its group continues without it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

import anyio
import pytest
from aiokafka.structs import TopicPartition
from gateway_kafka.aio.rebalances import RebalanceListener
from gateway_kafka.aio.session import close, connected
from gateway_kafka.client_config import KafkaConfig

from tests.kafka_broker import KafkaBroker

pytestmark = pytest.mark.anyio
SESSION_S = 30.0


class Owner:
    """Takes what is assigned; never gives it back if it `keeps` it."""

    def __init__(self, *, keeps: bool = False) -> None:
        self.assigned = anyio.Event()
        self.asked = anyio.Event()
        self._keeps = keeps

    def on_assigned(self, consumer: Any, partitions: Iterable[TopicPartition]) -> None:
        self.assigned.set()

    async def on_revoked(self, consumer: Any) -> None:
        if self.assigned.is_set():
            self.asked.set()
            if self._keeps:
                await anyio.sleep_forever()


async def test_a_group_does_not_wait_for_a_member_that_did_not_close_in_time(kafka: KafkaBroker) -> None:
    name = f"leave-{uuid.uuid4().hex[:12]}"
    kafka.create_topic(name, 2)
    config = KafkaConfig(bootstrap=(kafka.bootstrap,))
    old, new = Owner(keeps=True), Owner()
    stuck, _ = await connected(config, name, SESSION_S)
    stuck.subscribe([name], listener=RebalanceListener(old, stuck))
    with anyio.fail_after(60):
        await old.assigned.wait()
    other, _ = await connected(config, name, SESSION_S)
    try:
        other.subscribe([name], listener=RebalanceListener(new, other))
        with anyio.fail_after(60):
            await old.asked.wait()  # the group rebalances, and waits for it
            await close(stuck)
        with anyio.fail_after(SESSION_S - 10):  # not even until the member's session ends
            await new.assigned.wait()
        assert other.assignment() == {TopicPartition(name, 0), TopicPartition(name, 1)}
    finally:
        await close(other)
