"""RabbitMQ: the queue `in` goes through the gateway into the queue `out`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel
from gateway_dev.rabbitmq import RabbitMq

from tests.faults.adapter import Arrived, Place, attributes_of, read_structured, structured
from tests.ledger import body_of

LIMIT_S = 10.0
QUORUM: Any = {"x-queue-type": "quorum"}


class Rabbit:
    """Quorum queues, which keep what they have confirmed. A new one survives a kill -9 only some seconds later (3.10
    writes its name late), so `prepare` waits for that."""

    name = "rabbitmq"
    server = "rabbitmq"
    server_settings = ""
    ordered = False  # the server may give messages back behind later ones after it was killed: the card says so
    ordered_workers = False

    def __init__(self, heartbeat_s: int = 4) -> None:
        self.heartbeat_s = heartbeat_s

    def prepare(self, at: Place) -> None:
        async def work(channel: AbstractChannel) -> None:
            await channel.declare_exchange("events", aio_pika.ExchangeType.FANOUT, durable=True)
            arguments: Any = {**QUORUM, "x-single-active-consumer": True}
            await channel.declare_queue("in", durable=True, arguments=arguments)
            out = await channel.declare_queue("out", durable=True, arguments=QUORUM)
            await out.bind("events")
            arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
            await channel.declare_queue("full", durable=True, arguments=arguments)
            await channel.default_exchange.publish(aio_pika.Message(b"it is full"), "full")
            names = list(_server(at).data.glob("*/quorum/*/names.dets"))
            while not all(  # noqa: ASYNC110 - the server writes a file
                name in b"".join(file.read_bytes() for file in names) for name in (b"_in", b"_out")
            ):
                await asyncio.sleep(0.05)

        _run(at, work, 60)

    def source(self, at: Place) -> str:
        return f"rabbitmq: {{{_login(at)}, queue: in, single_active_consumer: true, heartbeat_s: {self.heartbeat_s}}}"

    def sink(self, at: Place) -> str:
        codec = "codec: {cloudevents: {mode: structured}}"
        return f"{{rabbitmq: {{{_login(at)}, exchange: events, heartbeat_s: {self.heartbeat_s}, {codec}}}}}"

    def send(self, at: Place, numbers: Sequence[int], acknowledged: Callable[[int], None]) -> None:
        async def one(channel: AbstractChannel, number: int) -> None:
            await channel.default_exchange.publish(_message(number), "in")
            acknowledged(number)

        async def work(channel: AbstractChannel) -> None:
            await asyncio.gather(*(one(channel, number) for number in numbers))

        _run(at, work)

    def poison(self, at: Place) -> None:
        async def work(channel: AbstractChannel) -> None:
            await channel.default_exchange.publish(aio_pika.Message(b"\xff no event", delivery_mode=2), "in")

        _run(at, work)

    def collect(self, at: Place, arrived: Callable[[Arrived], None], ended: threading.Event) -> None:
        async def work(channel: AbstractChannel) -> None:
            await channel.set_qos(prefetch_count=200)
            queue = await channel.get_queue("out", ensure=False)

            async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
                arrived(read_structured(message.body))
                await message.ack()

            await queue.consume(take)
            while not ended.is_set() and not channel.is_closed:  # noqa: ASYNC110 - another thread sets it
                await asyncio.sleep(0.05)

        _run(at, work, None)

    def evict(self, at: Place) -> None:
        _server(at).close_connections()

    def fill(self, at: Place, full: bool) -> bool:
        async def work(channel: AbstractChannel) -> None:
            for name, bound in (("full", full), ("out", not full)):
                queue = await channel.get_queue(name, ensure=False)
                await (queue.bind("events") if bound else queue.unbind("events"))

        _run(at, work)
        return True


def _message(number: int) -> aio_pika.Message:
    """Half of them in binary mode."""
    if number % 2:
        return aio_pika.Message(structured(number), content_type="application/cloudevents+json", delivery_mode=2)
    attributes = attributes_of(number)
    content_type = attributes.pop("datacontenttype")
    headers: dict[str, Any] = {f"cloudEvents_{name}": value for name, value in attributes.items()}
    return aio_pika.Message(body_of(number), headers=headers, content_type=content_type, delivery_mode=2)


def _login(at: Place) -> str:
    return f'server: "{at.host}:{at.port}", username: {at.user}, password: {at.password}'


def _server(at: Place) -> RabbitMq:
    assert isinstance(at.server, RabbitMq)
    return at.server


def _run(
    at: Place, work: Callable[[AbstractChannel], Coroutine[Any, Any, None]], limit_s: float | None = LIMIT_S
) -> None:
    """Runs it with a channel of a new connection."""

    async def limited() -> None:
        async with asyncio.timeout(limit_s), _channel(at) as channel:
            await work(channel)

    asyncio.run(limited())


@asynccontextmanager
async def _channel(at: Place) -> AsyncIterator[AbstractChannel]:
    async with await aio_pika.connect(at.url("amqp"), timeout=LIMIT_S) as connection:
        yield await connection.channel()


ADAPTER = Rabbit
