"""A Kafka sink on a machine that has no file descriptor left: nothing was sent, and that is no attempt."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import gateway_basics.plugin
import gateway_cloudevents.plugin
import gateway_kafka.plugin
import pytest

from gateway_core.clock import SystemClock
from gateway_core.component import BuildContext, SinkRef
from gateway_core.event import Event
from gateway_core.interfaces import Outcome, Sink
from gateway_core.registry import Registry

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.spec("SAFE-34")]


@contextmanager
def without_descriptors() -> Iterator[Callable[[], None]]:
    """This process can open nothing more; what it gives takes those that were closed since."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []

    def take() -> None:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))

    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(used + 8, soft), hard))
    try:
        take()
        yield take
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


@pytest.mark.parametrize("client", ["aiokafka", "confluent"])
async def test_a_record_that_no_descriptor_was_left_for_is_no_attempt(tmp_path: Path, client: str) -> None:
    registry = Registry()
    registry.add("basics", gateway_basics.plugin)
    registry.add("cloudevents", gateway_cloudevents.plugin)
    registry.add("kafka", gateway_kafka.plugin)
    options = {"bootstrap": ["127.0.0.1:9"], "topic": "t", "client": client, "delivery_timeout_s": 1}
    context = BuildContext("test", tmp_path, SystemClock(), registry)
    sink: Sink = registry.build(SinkRef("kafka", options), context)
    event = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"{}")
    outcomes: list[Outcome] = []
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        with without_descriptors() as take:
            sink.send(event, 1.0, outcomes.append)
            with anyio.fail_after(20):
                while not outcomes:
                    take()
                    await anyio.sleep(0.001)
        sink.send(event, 1.0, outcomes.append)
        with anyio.fail_after(20):
            while len(outcomes) < 2:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        await sink.stop()
        tasks.cancel_scope.cancel()
    assert [(o.delivered, o.retry, o.local) for o in outcomes] == [(False, True, True), (False, True, False)]
