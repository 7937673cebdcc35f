"""One trigger's subscription to a topic: a consumer group (`gateway_core.contract.interfaces.Feed`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import anyio
from anyio.abc import TaskGroup

from gateway_core.contract import event_data
from gateway_core.contract.component import BuildContext
from gateway_core.contract.component_errors import Errors
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, split_position
from gateway_core.contract.interfaces import Filter, Outcome, Receiver
from gateway_core.contract.outcome import Stage
from gateway_core.contract.start_position import StartPosition

from . import connect
from .admin import Admin
from .client import KafkaFault, Partition, Record
from .config import KafkaChannelConfig
from .flow import Flow
from .group_history import GroupHistory
from .late import started_late
from .non_cloudevent import wrap
from .records import reader

log = logging.getLogger("tidegate.kafka")

CHUNK = 64
RETRY_S = 1.0


class KafkaFeed:
    """Offers the topic's events to a subscription. `left` is set once it has left the group, or will never join it."""

    def __init__(
        self,
        group: str,
        topic: str,
        filter: Filter,
        receiver: Receiver,
        options: KafkaChannelConfig,
        context: BuildContext,
        start: StartPosition,
    ) -> None:
        self.group = group
        self.left = anyio.Event()
        self.new = False
        """Whether it had no offsets before it joined."""
        self._topic = topic
        self._options = options
        self._start = start
        self.started_late: str | None = None  # see `capabilities.StartsLate`; known to the gateway that made the group
        self._data_dir = context.data_dir
        self._after: KafkaFeed | None = None
        self._joining = anyio.CancelScope()
        self._leaving = False
        self._history = GroupHistory(context, group)
        self._waits_for: KafkaFault | None = None
        self._turn = anyio.Lock()
        self._matches = filter.matches
        self._errors = Errors("a filter")
        self._now = context.clock.now_ns
        self._offer = receiver.offer
        self._reject = receiver.reject
        self._withdraw = receiver.withdraw
        self._context = context
        self.aside = False
        """Whether it has left its group until `come_back`."""
        self._set_up()

    def _set_up(self) -> None:
        """A member of the group, which has not joined it."""
        options, context = self._options, self._context
        self.flow = Flow(
            self,
            reader(options.codec, context),
            context.clock,
            commit_interval_s=options.commit_interval_s,
            drain_s=options.drain_s,
            partition_id_of=_number,
            chunk=CHUNK,
            session_s=options.session_timeout_s,
        )
        self.flow.consumer = connect.consumer(
            options,
            context,
            group=self.group,
            topics=[self._topic],
            member=self.flow,
            max_poll_records=options.max_poll_records,
            session_timeout_s=options.session_timeout_s,
            begins=self.flow.begins,
        )
        self.ack = self.flow.settle
        self.resume = self.flow.resume
        self.lag = self.flow.lag
        self.delivery_state = self.flow.delivery_state

    # -- life -------------------------------------------------------------------------------------------------------

    async def join(self, admin: Admin, tasks: TaskGroup) -> None:
        """Sets the start offsets of a new group, and joins it. Raises `KafkaFault`."""
        async with self._turn:
            if self._leaving:
                return
            with anyio.CancelScope() as self._joining:
                prepared = await admin.prepare(self.group, [self._topic], self._start, self._history)
                self.new = prepared.new
                self.started_late = await started_late(
                    admin, self.group, self._topic, self._start, prepared, self._data_dir
                )
                self.flow.begins.clear()
                self.flow.begins.update(prepared.begins)
                await self.flow.start(tasks)

    async def join_later(self, tasks: TaskGroup, after: KafkaFeed | None) -> None:
        """Joins after the previous feed of this group has left, and retries while Kafka is not available."""
        self._after = after
        if after is not None:
            await after.left.wait()
            self._after = None
            self.flow.released |= after.flow.released
        while not self._leaving:
            try:
                async with Admin(self._options) as admin:
                    await self.join(admin, tasks)
            except KafkaFault as e:
                self.wait_for(e)
                await anyio.sleep(RETRY_S)
            else:
                self._waits_for = None
                return

    async def stand_aside(self) -> None:
        """Commits, and leaves the group until `come_back`. No event is in flight."""
        self._joining.cancel()
        async with self._turn:
            self.aside = True
            await self.flow.stop()

    def come_back(self, tasks: TaskGroup, firsts: Mapping[int, int] | None) -> None:
        """Joins the group again, which has gone back to these positions by partition; None if nobody knows whether it
        has. What was settled out of order before them is not read again."""
        if not self.aside or self._leaving:
            return
        released = self.flow.released
        self.aside = False
        self._set_up()
        for name, (safe, settled) in released.items():
            first = 0 if firsts is None else firsts.get(name[1], 0)
            self.flow.released[name] = safe, frozenset(offset for offset in settled if offset + 1 < first)
        tasks.start_soon(self.join_later, tasks, None)

    def settled(self, position: int) -> bool:
        """Whether it is done with the event at a position, or never got it, as far as this member knows."""
        number, behind = split_position(position)
        _, settled = self.flow.released.get((self._topic, number), (0, frozenset[int]()))
        return behind - 1 in settled or self.flow.delivery_state(position) in ("passed", "settled", "before")

    def wait_for(self, fault: KafkaFault) -> None:
        """The group can't be joined for now."""
        if str(fault) != str(self._waits_for):
            log.error("group %s can't be joined yet: %s", self.group, fault)
        self._waits_for = fault

    @property
    def fault(self) -> str | None:
        """See `abilities.Faulty`."""
        return str(self._waits_for) if self._waits_for else self.flow.fault

    async def leave(self) -> None:
        """Stops handing out events, commits, and leaves the group for good."""
        self._leaving = True
        self._joining.cancel()
        try:
            async with self._turn:
                await self.flow.stop()
            if self._after is not None:
                await self._after.left.wait()
        finally:
            self.left.set()

    # -- what the flow hands over -----------------------------------------------------------------------------------

    def take(self, events: Sequence[Event]) -> int:
        """See `flow.EventHandler`."""
        for count, event in enumerate(events):
            try:
                wanted = self._matches(event)
            except Exception as e:  # a filter that raises counts as a match
                self._errors.note(f"group {self.group} gets the event all the same", e)
                wanted = True
            if not wanted:
                self.flow.settle(event.position)
            elif not self._offer(event):
                if event_data.asked:
                    event_data.release()
                return count
        if event_data.asked:
            event_data.release()
        return len(events)

    def refuse(self, record: Record, partition: Partition, position: int, error: Refused) -> None:
        """A record that is not an event, from another producer: goes to the trigger's dead letter as it is."""
        event = wrap(record, partition, received_ns=self._now())
        event.trace = error.trace
        event.position = position
        self._reject(event, Outcome(False, stage=Stage.DECODE, reason=error.detail))

    def withdraw(self, partition_id: int) -> Sequence[int]:
        return self._withdraw(partition_id)


def _number(partition: Partition) -> int:
    return partition[1]
