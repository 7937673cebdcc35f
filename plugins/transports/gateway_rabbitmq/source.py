"""The source `rabbitmq`: consumes a queue, and acknowledges messages once their events are delivered or stored."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import anyio
from anyio.abc import TaskGroup
from gateway_transport.connection import Connection, lost
from gateway_transport.handover import Handover
from gateway_transport.messages import reader
from gateway_transport.not_an_event import handle, what_to_do, wrapped
from pamqp import commands as amqp

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Intake

from . import binding, session, topology
from .acks import Acks
from .config import RabbitSourceConfig
from .faults import RabbitFault
from .link import Link
from .wire import Content

LOOK_S = 5.0
"""How often the queue's length is asked for."""
CLOSE_S = 5.0


class RabbitSource:
    """`gateway_core.contract.interfaces.Source`."""

    pulls = True
    shares = True  # the queue hands each message to one of its consumers

    def __init__(self, options: RabbitSourceConfig, context: BuildContext) -> None:
        self._options = options
        self._clock = context.clock
        self._first_worker = context.worker == 0
        self._read = reader(options.codec, binding.AMQP, context)
        self._keys = options.key == "routing_key"
        self._servers = session.Servers(options, context.owner, offline=context.offline)
        self.address = f"{options.where}?queue={quote(options.visible('queue'), safe='*')}"
        self._handover: Handover[int] = Handover(
            context.owner, self.address, context.clock, self._settle, most_bytes=options.max_held_bytes
        )
        self._link: Link | None = None
        self._connection = Connection(context.owner, f"RabbitMQ at {options.where}", self._session)
        self._acks: Acks | None = None
        self._rejected: set[int] = set()
        self._leave: Callable[[], Any] | None = None
        self._stopping = False
        self._waiting = 0
        self._redelivered = 0
        self._most_deliveries = 0
        self._server = ""

    def read(self, message: Message) -> list[Event]:
        """See `gateway_core.contract.capabilities.Reading`: the event of one message."""
        event = self._read(binding.of_test(message))
        event.key = message.key if self._keys else None
        return [event]

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        """Consumes, and retries while the server or the queue is not available. Raises `StartError` if the server
        refuses the credentials or the configuration of the queue."""
        self._handover.intake = intake
        await self._connection.start(tasks)

    async def stop(self) -> None:
        self._stopping = True
        if self._link is not None:
            self._link.resume()  # for answers; what is delivered goes back
        if self._leave is not None and self._connection.connected:
            with anyio.move_on_after(CLOSE_S):
                await self._leave()
        await self._handover.drain()
        if self._acks is not None:
            self._acks.flush()
        await self._connection.stop()

    async def _session(self, connected: Callable[[], None]) -> None:
        link: Link | None = None
        try:
            self._link = link = await self._servers.open()
            self._server = link.version
            await topology.prepare_source(link, self._options)
            async with session.limited("Basic.Consume"):
                await self._consume(link)
            connected()
            await self._watch(link)
        except RabbitFault as e:
            raise session.as_rejected(e) from e
        finally:
            self._acks = self._leave = self._link = None
            self._rejected.clear()
            self._handover.drop()
            if link is not None:
                with anyio.CancelScope(shield=True):
                    await link.close()

    async def _consume(self, link: Link) -> None:
        channel = await link.channel()
        await channel.call(amqp.Basic.Qos(prefetch_count=self._options.prefetch))
        self._acks = Acks(link, channel)
        channel.delivered = self._delivered
        tag = "tidegate"

        async def leave() -> None:
            with suppress(RabbitFault):  # the session ends by itself
                await channel.call(amqp.Basic.Cancel(tag))

        self._leave = leave
        await channel.call(amqp.Basic.Consume(0, self._options.queue, tag))

    async def _watch(self, link: Link) -> None:
        """Returns never: raises why the connection has ended."""
        while True:
            if self._first_worker and not self._stopping and not link.paused:
                self._waiting = await session.depth(link, self._options.queue)
            with anyio.move_on_after(LOOK_S):
                await link.over.wait()
            if link.fault is not None:
                raise link.fault

    # -- messages ---------------------------------------------------------------------------------------------------

    def _delivered(self, content: Content) -> None:
        acks = self._acks
        if self._stopping or acks is None:
            return  # it goes back to the queue when the connection is closed
        tag = content.delivery_tag
        acks.delivered(tag)
        if content.redelivered:
            self._count_redelivery(content)
        try:
            if content.fault:
                raise Refused(content.fault)
            event = self._read(binding.to_message(content))
        except Refused as e:
            self._not_an_event(content, e)
            return
        if self._keys:
            event.key = content.routing_key.encode()
        self._handover.take(event, tag)
        self._pause_if_full()

    def _settle(self, tag: int) -> None:
        assert self._acks is not None
        if tag in self._rejected:
            self._rejected.remove(tag)
            self._acks.reject(tag)
        else:
            self._acks.ack(tag)
        if (link := self._link) is not None and link.paused and self._handover.roomy:
            link.resume()

    def _pause_if_full(self) -> None:
        if self._handover.full and self._link is not None:
            self._link.pause()

    def _not_an_event(self, content: Content, error: Refused) -> None:
        options, tag = self._options, content.delivery_tag
        if what_to_do(options.not_an_event, error) == "reject":
            self._handover.intake.refuse(error)
            self._rejected.add(tag)
            self._handover.skip(tag)
        else:
            handle(options, self._handover, self._wrapped(content), tag, error)
            self._pause_if_full()

    def _wrapped(self, content: Content) -> Event:
        """The message as an event: what it says of itself, and where it came from."""
        timestamp = content.properties.pop("timestamp", None)
        headers = [(n.decode("utf-8", "replace"), binding.as_text(v)) for n, v in content.headers.items()]
        headers += [(n, str(v).encode()) for n, v in content.properties.items()]
        headers += [("exchange", content.exchange.encode()), ("routing-key", content.routing_key.encode())]
        headers += [("content-type", content.content_type.encode())] if content.content_type else []
        key = content.routing_key.encode() if self._keys else None
        named = content.properties.get("message_id", "")
        return wrapped(
            id=named if named and named.isprintable() else str(uuid.uuid4()),
            source=f"rabbitmq:/{quote(self._options.queue, safe='')}",
            type=self._options.wrap_type,
            data=content.body,
            headers=headers,
            prefix="rabbitmq",
            key=key,
            timestamp_ms=-1 if timestamp is None else timestamp * 1000,
            received_ns=self._clock.now_ns(),
        )

    def _count_redelivery(self, content: Content) -> None:
        self._redelivered += 1
        count = content.headers.get(b"x-delivery-count")  # of a quorum queue
        if isinstance(count, int):
            self._most_deliveries = max(self._most_deliveries, count + 1)

    # -- for status -------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """See `gateway_core.contract.capabilities.Measured`."""
        return lost("rabbitmq", self._connection.losses)

    def info(self) -> dict[str, Any]:
        held = self._handover.held
        return {
            "address": self.address,
            "error": "stopped" if self._stopping else self._connection.error,
            "lag": self._waiting + held,
            "queue": self._options.visible("queue"),
            "server": self._server,
            "unacknowledged": held,
            "redelivered": self._redelivered,
            "most_deliveries": self._most_deliveries,
            "connections_lost": self._connection.losses,
        }
