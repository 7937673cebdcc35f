"""An MQTT source in a test, with an intake that the test answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import anyio
import anyio.to_thread
from gateway_mqtt.source import MqttSource
from gateway_testing.suites import MemoryIntake
from gateway_testing.suites.kit import PATIENCE_S

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import Clock, SystemClock
from gateway_core.contract.component import BuildContext, SourceRef
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Accepted
from tests.mqtt.publisher import Publisher

_EVENT = {"specversion": "1.0", "source": "/tidegate/mqtt", "type": "t"}


def unique(folder: Path) -> str:
    """A word for topics and client ids at the shared server; a test's folder has it, too, after a restart."""
    return uuid5(NAMESPACE_URL, str(folder)).hex[:16]


class AnsweringIntake(MemoryIntake):
    """Keeps what it is to answer, event by event."""

    def __init__(self, stores: bool = True) -> None:
        super().__init__()
        self.stores = stores
        self.answers: list[Accepted] = []

    def accept(self, events: Sequence[Event], done: Accepted) -> None:
        self.events.extend(events)
        if self.hold:
            self.answers.append(done)
        else:
            done(self.result)

    @property
    def ids(self) -> list[str]:
        return [str(event.attributes["id"]) for event in self.events]


def message(id: str, data: bytes | None = b"{}", **attributes: str) -> Message:
    """An event in binary mode."""
    headers = {**_EVENT, "id": id, **attributes, "content-type": "application/json"}
    return Message([(name.encode(), value.encode()) for name, value in headers.items()], data)


def build(
    folder: Path,
    options: dict[str, Any],
    *,
    worker: int = 0,
    workers: int = 1,
    traces: bool = False,
    clock: Clock | None = None,
) -> MqttSource:
    """A source as a gateway builds it."""
    context = BuildContext(
        "test.source",
        folder,
        clock or SystemClock(),
        Registry.installed(),
        broker="default",
        worker=worker,
        workers=workers,
        traces=traces,
    )
    source = context.registry.build(SourceRef("mqtt", {"client_id": unique(folder), **options}), context)
    assert isinstance(source, MqttSource)
    return source


@asynccontextmanager
async def running(source: MqttSource, intake: AnsweringIntake | None = None) -> AsyncIterator[AnsweringIntake]:
    """A started source, stopped at the end."""
    intake = intake or AnsweringIntake()
    async with anyio.create_task_group() as tasks:
        await source.start(intake, tasks)
        yield intake
        with anyio.fail_after(PATIENCE_S):
            await source.stop()
        tasks.cancel_scope.cancel()


async def publish(publisher: Publisher, topic: str, *messages: Message, qos: int = 1, retain: bool = False) -> None:
    """Publishes messages, and returns when the server has them."""
    for one in messages:
        await anyio.to_thread.run_sync(publisher.publish, topic, one, qos, retain)
