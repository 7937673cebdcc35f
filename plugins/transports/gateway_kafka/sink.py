"""The sink `kafka`: each event becomes one record, delivered when all in-sync replicas have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from anyio.abc import TaskGroup
from gateway_options.template import is_fixed, name_of

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.contract.outcome import short, unwritable
from gateway_core.contract.shortage import no_descriptor_left

from . import connect
from .client import KafkaFault, Producer
from .config import KafkaSinkConfig
from .records import preview, writer
from .template import TOPIC


class KafkaSink:
    """`gateway_core.contract.interfaces.Sink`. An attempt ends within `delivery_timeout_s`. The client retries by
    itself until then; giving up earlier could change the order of records."""

    in_flight: ClassVar[int] = 2000

    def __init__(self, options: KafkaSinkConfig, context: BuildContext) -> None:
        self._options = options
        self._context = context
        self._write = writer(options.codec, options.key, context)
        self._topic = options.topic
        self._topic_of = None if is_fixed(options.topic) else name_of(options.topic, TOPIC)
        self._producer: Producer | None = None
        self.longest_s = options.delivery_timeout_s
        self.address = f"kafka://{options.bootstrap[0]}/{options.visible('topic')}"

    async def start(self, tasks: TaskGroup) -> None:
        self._producer = producer = connect.producer(self._options, self._context)
        try:
            await producer.start(tasks)
        except KafkaFault as e:
            raise connect.start_error(self._context.owner, self._options, e) from e

    @property
    def fault(self) -> str | None:
        """Why no record can be written now (`Faulty`). An attempt waits for the cluster much longer than that."""
        fault = self._producer.fault if self._producer is not None else None
        return str(fault) if fault is not None else None

    async def stop(self) -> None:
        if self._producer is not None:
            await self._producer.stop()

    def preview(self, event: Event) -> Message:
        key, value, headers = self._write(event)
        topic = self._topic if self._topic_of is None else self._topic_of(event)
        return preview(f"kafka://{self._options.bootstrap[0]}/{topic}", key, value, headers)

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        assert self._producer is not None, "send before start"
        try:
            topic = self._topic if self._topic_of is None else self._topic_of(event)
            key, value, headers = self._write(event)
        except Refused as e:
            done(unwritable(e))
            return

        def acknowledged(fault: KafkaFault | None) -> None:
            done(DELIVERED if fault is None else _outcome(fault))

        self._producer.send(topic, key, value, headers, acknowledged)


def _outcome(fault: KafkaFault) -> Outcome:
    if fault.retry and (fault.local or no_descriptor_left()):
        return short(str(fault))  # the client hides why it has no connection
    return Outcome(False, retry=fault.retry, reason=str(fault))
