"""A RabbitMQ server as tests see it from outside: with aio-pika, and through a proxy that cuts and stalls."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection
from gateway_dev.rabbitmq import RabbitMq

from gateway_core.contract.event import Event

T = TypeVar("T")
LIMIT_S = 60.0


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return future.result(LIMIT_S)

    def close(self) -> None:
        self.run(_cancelled())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(LIMIT_S)
        self.loop.close()


async def _cancelled() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Lab:
    """What a test does at a server, step by step. It reconnects if the server was killed in between."""

    def __init__(self, server: RabbitMq) -> None:
        self.server = server
        self.url = server.url
        self._loop = Loop()
        self._connection: AbstractConnection | None = None
        self._asking = threading.Lock()  # one that talks Erlang has the name of another, at the same time

    def close(self) -> None:
        """Ends everything."""
        if self._connection is not None:
            with suppress(Exception):
                self._loop.run(self._connection.close())
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end."""
        return self._loop.run(work)

    def queue(self, name: str, type: str = "quorum", **arguments: Any) -> None:
        """Declares a durable queue; `_` in the name of an argument is `-`."""

        async def work() -> None:
            channel = await self._channel()
            given = {"x-queue-type": type, **{f"x-{k.replace('_', '-')}": v for k, v in arguments.items()}}
            await channel.declare_queue(name, durable=True, arguments=given)
            await channel.close()

        self.run(work())

    def exchange(self, name: str, type: str = "direct") -> None:
        """Declares a durable exchange."""

        async def work() -> None:
            channel = await self._channel()
            await channel.declare_exchange(name, aio_pika.ExchangeType(type), durable=True)
            await channel.close()

        self.run(work())

    def bind(self, queue: str, exchange: str, key: str, **arguments: Any) -> None:
        """Binds a queue to an exchange; arguments are what a headers exchange compares."""

        async def work() -> None:
            channel = await self._channel()
            await (await channel.get_queue(queue, ensure=False)).bind(exchange, key, arguments=arguments)
            await channel.close()

        self.run(work())

    def unbind(self, queue: str, exchange: str, key: str) -> None:
        """Takes a binding away."""

        async def work() -> None:
            channel = await self._channel()
            await (await channel.get_queue(queue, ensure=False)).unbind(exchange, key)
            await channel.close()

        self.run(work())

    def on_disk(self, queue: str) -> bool:
        """Whether a kill -9 leaves this new quorum queue in the server: RabbitMQ 3.10 writes its name some seconds
        late, and without the name the queue never works again."""
        names = list(self.server.data.glob("*/quorum/*/names.dets"))
        return any(queue.encode() in names_file.read_bytes() for names_file in names)

    def delete(self, queue: str) -> None:
        """Deletes a queue."""

        async def work() -> None:
            channel = await self._channel()
            await channel.queue_delete(queue)
            await channel.close()

        self.run(work())

    def publish(self, queue: str, *messages: aio_pika.Message, exchange: str = "") -> None:
        """Publishes messages with the queue's name as their routing key; returns when all are confirmed."""

        async def work() -> None:
            channel = await self._channel()
            where = await channel.get_exchange(exchange, ensure=False) if exchange else channel.default_exchange
            await asyncio.gather(*(where.publish(message, queue) for message in messages))
            await channel.close()

        self.run(work())

    def ready(self, queue: str) -> int:
        """How many messages wait in the queue."""

        async def work() -> int:
            channel = await self._channel()
            found = await channel.declare_queue(queue, passive=True)
            await channel.close()
            return found.declaration_result.message_count or 0

        return self.run(work())

    def take(self, queue: str) -> list[aio_pika.abc.AbstractIncomingMessage]:
        """Takes all messages that wait in the queue."""

        async def work() -> list[aio_pika.abc.AbstractIncomingMessage]:
            channel = await self._channel()
            found = []
            source = await channel.get_queue(queue, ensure=False)
            while (message := await source.get(no_ack=True, fail=False)) is not None:
                found.append(message)
            await channel.close()
            return found

        return self.run(work())

    def counts(self, queue: str) -> tuple[int, int]:
        """Messages that wait in a classic queue, and those that are delivered and not acknowledged."""
        name = ",".join(map(str, queue.encode()))
        with self._asking:
            said = self.server.evaluate(
                f"{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<47>>, queue, <<{name}>>)), "
                "rabbit_amqqueue:info(Q, [messages_ready, messages_unacknowledged])."
            )
        ready, unacknowledged = map(int, re.findall(r"\d+", said))
        return ready, unacknowledged

    async def _channel(self) -> AbstractChannel:
        if self._connection is not None:
            with suppress(Exception):  # aio-pika learns late that the server has gone
                return await self._connection.channel()
        self._connection = await aio_pika.connect(self.url)
        return await self._connection.channel()


class Proxy:
    """A TCP proxy on 127.0.0.1 in front of a server: it can stall, cut, and go away."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._loop = Loop()
        self._server: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self._loop.run(self._listen())

    def stall(self) -> None:
        """Nothing comes through, in either direction."""
        self._loop.loop.call_soon_threadsafe(self._flowing.clear)

    def flow(self) -> None:
        """The first behaviour: everything comes through, and connections are possible."""
        self._loop.run(self._listen())

    def leave(self) -> None:
        """Cuts all connections, and takes no others."""
        self._loop.run(self._away())

    def cut(self) -> None:
        """Cuts all connections."""
        self._loop.run(self._cut())

    def close(self) -> None:
        self._loop.run(self._away())
        self._loop.close()

    async def _listen(self) -> None:
        self._flowing.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _away(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._cut()

    async def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            onward_reader, onward = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, onward}
        self._writers |= both
        try:
            await asyncio.gather(self._pipe(reader, onward), self._pipe(onward_reader, writer))
        finally:
            self._writers -= both
            for one in both:
                one.transport.abort()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


@contextmanager
def proxied(port: int) -> Iterator[Proxy]:
    """A proxy in front of a server."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()


def event_of(message: aio_pika.abc.AbstractIncomingMessage) -> Event:
    """As CloudEvents' AMQP binding says, section 3.1: binary mode."""
    attributes: dict[str, Any] = {}
    for name, value in message.headers.items():
        if name.startswith("cloudEvents_"):
            attributes[name.removeprefix("cloudEvents_")] = value
    if message.content_type is not None:
        attributes["datacontenttype"] = message.content_type
    return Event(attributes, message.body)


def message_of(event: Event, prefix: str = "cloudEvents_", **properties: Any) -> aio_pika.Message:
    """The same in the other direction."""
    headers = {prefix + name: value for name, value in event.attributes.items() if name != "datacontenttype"}
    content_type = event.attributes.get("datacontenttype")
    properties = {"delivery_mode": 2, **properties}
    return aio_pika.Message(event.data or b"", headers=headers, content_type=content_type, **properties)


def numbered(number: int, **more: Any) -> Event:
    """A small event with the id `n<number>`."""
    attributes = {"specversion": "1.0", "source": "/lab", "type": "t", "id": f"n{number}"}
    return Event({**attributes, "datacontenttype": "text/plain", **more}, b"data %d" % number)
