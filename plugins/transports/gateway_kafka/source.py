"""The source `kafka`: reads the partitions of a consumer group, and commits offsets once the events are delivered or
stored."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar

import anyio
from anyio.abc import TaskGroup
from gateway_transport.not_an_event import what_to_do
from gateway_transport.tasks import run
from gateway_transport.witness import MessageOrigin, Witness

from gateway_core.contract.clock import Timer
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message, split_position
from gateway_core.contract.interfaces import Intake, Outcome
from gateway_core.contract.outcome import Stage

from . import connect
from .admin import Admin
from .client import Consumer, KafkaFault, Partition, Record
from .config import KafkaSourceConfig
from .flow import Flow
from .group_history import GroupHistory, OffsetsLost
from .intake_writer import IntakeWriter
from .non_cloudevent import wrap
from .records import reader

log = logging.getLogger("tidegate.kafka")

CONNECT_S = 5.0
RETRY_S = 1.0
FULL_S = 0.02
CHUNK = 512


class KafkaSource:
    """`gateway_core.contract.interfaces.Source`."""

    pulls: ClassVar[bool] = True
    shares: ClassVar[bool] = True  # the workers are members of one consumer group

    def __init__(self, options: KafkaSourceConfig, context: BuildContext) -> None:
        self._options = options
        self._context = context
        self._owner = context.owner
        self._group = options.group_of(context.broker)
        self._clock = context.clock
        self._partition_ids: dict[Partition, int] = {}
        self._read = reader(options.codec, context)
        self._flow = Flow(
            self,
            self._read,
            context.clock,
            commit_interval_s=options.commit_interval_s,
            drain_s=options.drain_s,
            partition_id_of=self._partition_id,
            chunk=CHUNK,
            session_s=options.session_timeout_s,
        )
        self._history = GroupHistory(context, self._group)
        self._intake: Intake
        self._started = False
        self._beginning: anyio.CancelScope | None = None  # made in the loop
        self._ended = False
        self._turn = anyio.Lock()
        self._waiting_for: KafkaFault | None = None
        self._wake: Timer | None = None
        self._witness: Witness | None = None
        self.address = f"kafka://{options.bootstrap[0]}/{options.visible('topics')}"
        self._writer = IntakeWriter(self._owner, self.address, context.clock, self._flow.settle, self._flow.resume)

    def _partition_id(self, partition: Partition) -> int:
        return self._partition_ids.setdefault(partition, len(self._partition_ids) + 1)

    def read(self, message: Message) -> list[Event]:
        """See `gateway_core.contract.capabilities.Reading`: the event of one record."""
        headers = [(name.decode(), value) for name, value in message.headers]
        return [self._read(Record(0, 0, message.key, message.body, headers))]

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        """Joins the group, and retries while the cluster or a topic is not available. Raises `StartError` if the
        cluster rejects the credentials."""
        self._intake = self._writer.intake = intake
        if intake.stores:
            self._flow.slack = 2 * CHUNK
        try:
            await self._begin(tasks)
        except KafkaFault as e:
            if e.credentials:
                raise connect.start_error(self._owner, self._options, e) from e
            self._waiting_for = e
            level = logging.ERROR if isinstance(e, OffsetsLost) else logging.WARNING
            log.log(level, "%s waits for Kafka at %s: %s", self._owner, self.address, self._waiting_for)
            tasks.start_soon(run, self._keep_trying, tasks)

    async def _begin(self, tasks: TaskGroup) -> None:
        async with self._turn:
            if self._ended:
                return
            self._beginning = anyio.CancelScope()
            with self._beginning:
                await self._prepare()
                self._flow.consumer = self._consumer()
                self._started = True
                try:
                    await self._flow.start(tasks)
                except KafkaFault:
                    self._started = False
                    raise
                self._waiting_for = None

    async def _prepare(self) -> None:
        o = self._options
        try:
            with anyio.fail_after(CONNECT_S):
                async with Admin(o) as admin:
                    await admin.prepare(self._group, o.topics, o.start, self._history)
        except TimeoutError as e:
            raise KafkaFault(f"no answer within {CONNECT_S:g} s; `tidegate check --connect` may say why") from e

    def _consumer(self) -> Consumer:
        o = self._options
        return connect.consumer(
            o,
            self._context,
            group=self._group,
            topics=o.topics,
            member=self._flow,
            max_poll_records=o.max_poll_records,
            session_timeout_s=o.session_timeout_s,
        )

    async def _keep_trying(self, tasks: TaskGroup) -> None:
        while not self._started:
            await anyio.sleep(RETRY_S)
            try:
                await self._begin(tasks)
            except KafkaFault as e:
                if str(e) != str(self._waiting_for):
                    log.error("%s: Kafka at %s: %s", self._owner, self.address, e)
                self._waiting_for = e
            if self._ended:
                return
        log.info("%s reads from %s", self._owner, self.address)

    async def stop(self) -> None:
        self._ended = True
        if self._beginning is not None:
            self._beginning.cancel()
        async with self._turn:
            if self._started:
                await self._flow.stop()
        if self._wake is not None:
            self._wake.cancel()

    # -- what the flow hands over -----------------------------------------------------------------------------------

    def take(self, events: Sequence[Event]) -> int:
        """See `flow.EventHandler`."""
        if self._witness is not None:
            self._tell(self._witness, events)
        if self._intake.stores:
            return len(events) if self._writer.take(events) else 0
        for count, event in enumerate(events):
            answer = _Answer(self._flow, event.position)
            self._intake.accept((event,), answer)
            if answer.refused:
                if self._wake is None:  # one timer for all partitions
                    self._wake = self._clock.call_later(FULL_S, self._woken)
                return count
        return len(events)

    def witness(self, witness: Witness | None) -> None:
        """See `gateway_transport.witness.Witnessed`."""
        self._witness = witness

    def _tell(self, witness: Witness, events: Sequence[Event]) -> None:
        for event in events:
            number, behind = split_position(event.position)
            topic, partition = self._flow.name_of(number)
            witness((event,), MessageOrigin(f"topic {topic}, partition {partition}, offset {behind - 1}"))

    def _woken(self) -> None:
        self._wake = None
        self._flow.resume()

    def withdraw(self, partition_id: int) -> Sequence[int]:
        return [*self._intake.withdraw(partition_id), *self._writer.withdraw(partition_id)]

    def refuse(self, record: Record, partition: Partition, position: int, error: Refused) -> Event | None:
        """A record that is not an event: handled as `not_an_event` says."""
        what = what_to_do(self._options.not_an_event, error)
        if what == "drop":
            self._intake.refuse(error)
            self._flow.settle(position)
            return None
        event = wrap(record, partition, self._options.wrap_type, self._clock.now_ns())
        event.trace = error.trace
        if what == "wrap":
            return event
        event.position = position
        self._writer.dead_letter(event, position, Outcome(False, stage=Stage.DECODE, reason=error.detail))
        return None

    # -- for status -------------------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        head = {"address": self.address, "group": self._group}
        if not self._started:
            return {**head, "error": str(self._waiting_for), "lag": None, "partitions": {}}
        return {**head, **self._flow.info()}


class _Answer:
    """A bridge's answer to one event."""

    __slots__ = ("_flow", "_position", "refused")

    def __init__(self, flow: Flow, position: int) -> None:
        self._flow = flow
        self._position = position  # the bridge gives the event a position of its own
        self.refused = False

    def __call__(self, error: BaseException | None) -> None:
        if error is None:
            self._flow.settle(self._position)
        else:
            self.refused = True
