"""The sink `rabbitmq`: each event becomes one message, delivered when the server has confirmed it."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import anyio
from anyio.abc import TaskGroup
from gateway_options.template import name_of
from gateway_transport.connection import Connection, lost
from gateway_transport.messages import writer
from pamqp import commands as amqp

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.outcome import unwritable

from . import binding, session, topology
from .config import ROUTING_KEY, RabbitSinkConfig
from .faults import RabbitFault, forbidden_topic, size_limit
from .link import Link
from .publisher import Publisher

CLOSE_S = 5.0


class RabbitSink:
    """`gateway_core.contract.interfaces.Sink`. While the server is down or reads nothing (`connection.blocked`),
    attempts wait here, and time out."""

    in_flight = 2000

    def __init__(self, options: RabbitSinkConfig, context: BuildContext) -> None:
        self._options = options
        carried = binding.AMQP if options.headers == "cloudevents" else binding.KNATIVE
        self._write = writer(options.codec, carried, context, options.key)
        self._exchange = options.exchange
        self._key_of = self._routing_key()
        self._servers = session.Servers(options, context.owner, offline=context.offline)
        self._connection = Connection(context.owner, f"RabbitMQ at {options.where}", self._session)
        self._publisher = Publisher(options, context.clock, lambda: self._connection.error)
        end = (
            f"queue={quote(options.visible('queue'), safe='*')}"
            if options.queue
            else f"exchange={quote(options.visible('exchange'), safe='*')}"
        )
        self.address = f"{options.where}?{end}"

    def _routing_key(self) -> Callable[[Event], str] | None:
        options = self._options
        if options.key is not None:
            return None  # the writer takes it from the key mapper
        if options.queue is not None:
            queue = options.queue
            return lambda event: queue
        return name_of("{type}" if options.routing_key is None else options.routing_key, ROUTING_KEY)

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        """Raises `StartError` if the server refuses the credentials or the configuration of the exchange."""
        await self._connection.start(tasks)

    def metrics(self) -> dict[str, float]:
        """See `gateway_core.contract.capabilities.Measured`."""
        return lost("rabbitmq", self._connection.losses)

    async def stop(self) -> None:
        await self._publisher.drain(CLOSE_S)
        await self._connection.stop()
        self._publisher.stop()

    async def _session(self, connected: Callable[[], None]) -> None:
        link: Link | None = None
        try:
            link = await self._servers.open()
            await topology.prepare_sink(link, self._options)
            async with session.limited("Confirm.Select"):
                channel = await link.channel()
                await channel.call(amqp.Confirm.Select())
            self._publisher.begin(link, channel)
            connected()
            await link.over.wait()
            raise link.fault or RabbitFault("the connection has ended")
        except RabbitFault as e:
            if (most_bytes := size_limit(e)) is not None:
                self._publisher.limit(most_bytes)
            if (key := forbidden_topic(e)) is not None:
                self._publisher.forbid(key, str(e))
            raise session.as_rejected(e) from e
        finally:
            reason = str(link.fault) if link is not None and link.fault is not None else "the connection was closed"
            self._publisher.end(reason)
            if link is not None:
                with anyio.CancelScope(shield=True):
                    await link.close()

    # -- events -----------------------------------------------------------------------------------------------------

    def _written(self, event: Event) -> tuple[str, bytes, list[tuple[bytes, bytes]], bytes]:
        """Routing key, content type, headers and body. Raises `Refused`."""
        message = self._write(event)
        content_type, headers = binding.split(message)
        if self._key_of is not None:
            key = self._key_of(event)
        else:
            try:
                key = (message.key or b"").decode()
            except UnicodeDecodeError as e:
                raise Refused("the routing key is not UTF-8") from e
            if len(key.encode()) > ROUTING_KEY.most:
                raise Refused(f"a routing key has at most {ROUTING_KEY.most} bytes")
        return key, content_type, headers, message.body or b""

    def preview(self, event: Event) -> Message:
        key, content_type, headers, body = self._written(event)
        if content_type:
            headers = [*headers, (b"content-type", content_type)]
        exchange = quote(self._exchange, safe="")
        url = f"{self._options.where}?exchange={exchange}&routing_key={quote(key, safe='')}"
        return Message(headers, body, key.encode(), url=url)

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        try:
            key, content_type, headers, body = self._written(event)
            id = event.attributes.get("id")
            attempt = self._publisher.attempt(key, content_type, headers, body, id if type(id) is str else "")
        except Refused as e:
            done(unwritable(e))
            return
        self._publisher.send(attempt, timeout_s, done)
