"""A Kafka sink on a machine that has no file descriptor left: nothing was sent, and that is no attempt."""

from __future__ import annotations

from pathlib import Path

import anyio
import gateway_basics.plugin
import gateway_cloudevents.plugin
import gateway_kafka.plugin
import gateway_kafka_confluent.plugin
import pytest

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, SinkRef
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome, Sink
from tests.descriptors import without_descriptors
from tests.kafka_broker import TWIN_CLIENTS

pytestmark = [pytest.mark.anyio, pytest.mark.spec("SAFE-34")]


@pytest.mark.parametrize("client", TWIN_CLIENTS)
@pytest.mark.usefixtures("real_time")
async def test_a_record_that_no_descriptor_was_left_for_is_no_attempt(tmp_path: Path, client: str) -> None:
    registry = Registry()
    registry.add("basics", gateway_basics.plugin)
    registry.add("cloudevents", gateway_cloudevents.plugin)
    registry.add("kafka", gateway_kafka.plugin)
    registry.add("kafka_confluent", gateway_kafka_confluent.plugin)
    options = {"bootstrap": ["127.0.0.1:9"], "topic": "t", "client": client, "delivery_timeout_s": 1}
    context = BuildContext("test", tmp_path, SystemClock(), registry)
    sink: Sink = registry.build(SinkRef("kafka", options), context)
    event = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"{}")
    outcomes: list[Outcome] = []
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        with without_descriptors():
            sink.send(event, 1.0, outcomes.append)
            with anyio.fail_after(60):
                while not outcomes:  # noqa: ASYNC110
                    await anyio.sleep(0.001)
        sink.send(event, 1.0, outcomes.append)
        with anyio.fail_after(60):
            while len(outcomes) < 2:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        await sink.stop()
        tasks.cancel_scope.cancel()
    assert [(o.delivered, o.retry, o.local) for o in outcomes] == [(False, True, True), (False, True, False)]
