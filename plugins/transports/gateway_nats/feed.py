"""A trigger's subscription to the channel `jetstream`: a durable consumer (`gateway_core.contract.interfaces.Feed`)."""

from __future__ import annotations

import logging
from collections import deque
from urllib.parse import quote

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from gateway_transport.not_an_event import wrapped
from nats.aio.msg import Msg
from nats.js import api

from gateway_core.contract import event_data, late_start
from gateway_core.contract.capabilities import DeliveryState
from gateway_core.contract.component import BuildContext
from gateway_core.contract.component_errors import Errors
from gateway_core.contract.errors import Refused, StartError
from gateway_core.contract.event import Event, position_of, split_position
from gateway_core.contract.interfaces import Filter, Outcome, Receiver
from gateway_core.contract.outcome import Stage
from gateway_core.contract.start_position import StartPosition

from . import rewinds
from .client import Link
from .config import JetStreamChannelConfig
from .pull import Puller
from .stored import event_reader
from .streams import began_at, ensure_consumer, ensure_stream

log = logging.getLogger("tidegate.nats")

DRAIN_S = 5.0
POLL_S = 0.01


class JetStreamFeed:
    """Offers the stream's events to a subscription. A position is a message's sequence number; its partition counts
    how often the stream was made again, because its numbers start again then. `joined` is set once the
    consumer exists, `left` once the feed has given everything back."""

    def __init__(
        self,
        consumer: str,
        filter: Filter,
        receiver: Receiver,
        options: JetStreamChannelConfig,
        context: BuildContext,
        start: StartPosition,
    ) -> None:
        self.consumer = consumer
        self.joined = anyio.Event()
        self.left = anyio.Event()
        self._options = options
        self._stream = options.stream_of(context.broker)
        self._subject = options.subject_of(context.broker)
        self._wanted = options.stream_config(context.broker)
        self._start = start
        self.started_late: str | None = None  # known to the gateway that made the consumer
        self._data_dir = context.data_dir
        self._late_name = f"consumer {consumer} of stream {self._stream}"
        self._late_known = start.kind != "time"
        self._decode = event_reader(options.codec, context)
        self._now = context.clock.now_ns
        self._matches = filter.matches
        self._errors = Errors("a filter")
        self._receiver = receiver
        self._waiting: deque[Event] = deque()  # wanted, and not offered yet
        self._offering = self._leaving = False
        self._first = 0
        self._began = 0  # the first message that the consumer is for; 0: not known
        self._turn = 0
        self._context = context
        self.aside = False
        """Whether it has given everything back until `come_back`."""
        self._set_up()

    def _set_up(self) -> None:
        """A connection and what reads the consumer over it, which have not begun."""
        options, context = self._options, self._context
        self._link = Link(
            options,
            f"{context.owner}: consumer {self.consumer}",
            context.clock,
            self._begin,
            run=self._run,
            ended=self._lost,
        )
        self._puller = Puller(
            self._link,
            context.clock,
            self._take,
            most=options.max_in_flight,
            first=context.worker == 0,
            api_prefix=options.api_prefix,
            stream=self._ensure_stream,
            consumer=self._ensure_consumer,
            forget=self._forget,
        )

    # -- life -------------------------------------------------------------------------------------------------------

    async def join(self, tasks: TaskGroup) -> None:
        """Makes the consumer, or checks it, and begins to read. Raises `StartError` if it is not as configured."""
        if not self._leaving:
            await self._link.start(tasks)

    async def leave(self) -> None:
        """Reads no more, waits briefly for what is in flight, and gives the rest back."""
        self._leaving = True
        if not self.aside:
            await self._give_back()
        self.left.set()

    async def _give_back(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._puller.stop()
            waiting = [event.position for event in self._waiting]
            self._waiting.clear()
            idle = {split_position(position)[1] for position in [*waiting, *self._receiver.withdraw(self._turn)]}
            with anyio.move_on_after(DRAIN_S):
                while self._puller.open_besides(idle):  # noqa: ASYNC110 - once, at a stop
                    await anyio.sleep(POLL_S)
            await self._puller.close()
            await self._link.stop()

    async def stand_aside(self) -> None:
        """Gives everything back, and reads nothing until `come_back`. No event is in flight."""
        if not self.aside and not self._leaving:
            await self._give_back()
            self.aside = True

    def come_back(self, tasks: TaskGroup, to: int | None) -> None:
        """Reads again. The consumer was set back to this message; None if nobody knows whether it was."""
        if not self.aside or self._leaving:
            return
        self.aside = False
        earlier = self._puller
        self._began = 0
        self.joined = anyio.Event()
        self._set_up()
        if to is not None:
            self._puller.follow(earlier, to)
        tasks.start_soon(self._join_again, tasks)

    async def _join_again(self, tasks: TaskGroup) -> None:
        try:
            await self.join(tasks)
        except StartError as e:
            log.error("%s", e)

    async def _begin(self) -> None:
        await self._puller.begin()
        self.joined.set()

    async def _run(self) -> None:
        await self._puller.run()

    def _lost(self) -> None:
        self._puller.lost()

    async def _ensure_stream(self) -> api.StreamInfo:
        return await ensure_stream(self._link.js, self._stream, self._wanted)

    async def _ensure_consumer(self, resume_at: int | None) -> api.ConsumerInfo:
        o = self._options
        if not self._late_known:
            self.started_late = await to_thread.run_sync(late_start.known, self._data_dir, self._late_name)
            self._late_known = True
        await rewinds.finish(self._link.js, self._data_dir, self._stream, self.consumer)
        found = await ensure_consumer(
            self._link.js,
            self._stream,
            self.consumer,
            filters=[self._subject],
            start=self._start if resume_at is None else StartPosition.at_positions({0: resume_at}),
            ack_wait_s=o.ack_wait_s,
            max_ack_pending=o.max_in_flight,
            compare=lambda option: option in o.model_fields_set,
            began=self._began or (0 if resume_at is None else None),
            late=self._late if resume_at is None else None,
        )
        self._began = began_at(found.config)
        return found

    async def _late(self, gone: str | None) -> None:
        """The consumer is new, and lacks this."""
        self.started_late = gone
        if gone is not None:
            log.warning("consumer %s: %s", self.consumer, gone)
        await to_thread.run_sync(late_start.remember, self._data_dir, self._late_name, gone)

    def _forget(self) -> None:
        self._waiting.clear()
        self._receiver.withdraw(self._turn)
        self._turn += 1
        self._began = 0

    # -- events -----------------------------------------------------------------------------------------------------

    def _take(self, msg: Msg, sequence: int, delivered: int) -> None:
        try:
            event = self._decode(msg.headers, msg.data)
        except Refused as e:
            self._reject(msg, sequence, e)
            return
        event.position = position_of(self._turn, sequence)
        try:
            wanted = self._matches(event)
        except Exception as e:  # a filter that raises counts as a match
            self._errors.note(f"the consumer {self.consumer} gets the event all the same", e)
            wanted = True
        if event_data.asked:
            event_data.release()
        if not wanted:
            self._puller.settle(sequence)
        elif self._waiting or self._offering or not self._receiver.offer(event):
            self._waiting.append(event)

    def _reject(self, msg: Msg, sequence: int, error: Refused) -> None:
        """A message that is not an event, from another program: goes to the trigger's dead letter as it is."""
        event = wrapped(
            id=str(sequence),
            source=f"nats:/{quote(self._stream, safe='')}/{quote(msg.subject, safe='.')}",
            type="dev.tidegate.message",
            data=msg.data,
            headers=[(name, value.encode()) for name, value in (msg.headers or {}).items()],
            prefix="nats",
            received_ns=self._now(),
        )
        event.trace = error.trace
        event.position = position_of(self._turn, sequence)
        self._receiver.reject(event, Outcome(False, stage=Stage.DECODE, reason=error.detail))

    def ack(self, position: int) -> None:
        """The event needs no more care. One of a stream that is no more is not taken for one of the new stream."""
        turn, sequence = split_position(position)
        if turn == self._turn:
            self._puller.settle(sequence)

    def resume(self) -> None:
        """There is room again."""
        if self._offering or self._leaving:
            return
        self._offering = True
        try:
            waiting, offer = self._waiting, self._receiver.offer
            while waiting and offer(waiting[0]):
                waiting.popleft()
        finally:
            self._offering = False

    # -- for status -------------------------------------------------------------------------------------------------

    def lag(self) -> int:
        """Events in the stream that are not settled, as far as the server has told us."""
        return self._puller.lag

    @property
    def fault(self) -> str | None:
        """See `gateway_core.contract.capabilities.Faulty`."""
        return self._link.error

    def delivery_state(self, position: int) -> DeliveryState | None:
        """See `gateway_core.contract.capabilities.TracksDeliveries`."""
        state = self._puller.delivery_state(position)
        return "before" if state != "passed" and position < self._began else state
