"""What aio-pika does by its public ways where tests/rabbitmq has a fault: shows whether it could replace our own link.

    .venv/bin/python -m tests.bench.aio_pika_faults

Prints one line for each fault; docs/discussion/design.md compares. Takes half a minute.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aio_pika
from aio_pika import Message
from aio_pika.abc import AbstractIncomingMessage
from gateway_dev import servers
from gateway_dev.rabbitmq import RabbitMq

from tests.rabbit_lab import Lab, proxied

LIMIT_S = 40.0
thread = asyncio.to_thread


class Faults:
    """Each method makes a fault, and returns what a user of aio-pika sees."""

    def __init__(self, server: RabbitMq, lab: Lab) -> None:
        self._server = server
        self._lab = lab
        self._url = f"amqp://127.0.0.1:{server.port}"

    async def blocked(self) -> str:
        """aiormq's `ready` is the only public sign of `connection.blocked`."""
        await thread(self._lab.queue, "blocked")
        connection = await aio_pika.connect(self._url)
        exchange = (await connection.channel()).default_exchange
        await thread(self._server.evaluate, "vm_memory_monitor:set_vm_memory_high_watermark({absolute, 1}).")
        try:
            plain = [await _published(exchange, "blocked", f"plain {n}") for n in range(3)]
            try:
                transport: Any = connection.transport
                await asyncio.wait_for(transport.connection.ready(), 1)
                held = "ready at once"
            except TimeoutError:
                held = "held back by ready()"
        finally:
            await thread(self._server.evaluate, "vm_memory_monitor:set_vm_memory_high_watermark(0.4).")
        await asyncio.sleep(2)
        arrived = len(await thread(self._lab.take, "blocked"))
        await connection.close()
        return f"published without ready(): {plain}, {arrived} of 3 arrived later; a fourth: {held}"

    async def returned(self) -> str:
        await thread(self._lab.exchange, "returned", "headers")
        await thread(self._lab.queue, "returned")
        await thread(lambda: self._lab.bind("returned", "returned", "", s="wanted"))
        connection = await aio_pika.connect(self._url)
        channel = await connection.channel(on_return_raises=True)
        exchange = await channel.get_exchange("returned", ensure=False)
        found = []
        for ids in ("aaaa", "abcd"):
            sent = [
                _published(exchange, "k", "x", message_id=id, headers={"s": subject})
                for id, subject in zip(ids, ("wanted", "lost", "wanted", "lost"), strict=True)
            ]
            found.append(await asyncio.gather(*sent))
        await connection.close()
        return f"wanted, lost, wanted, lost; with one message id: {found[0]}; with four: {found[1]}"

    async def full_queue(self) -> str:
        await thread(lambda: self._lab.queue("full", "classic", max_length=1, overflow="reject-publish"))
        await thread(self._lab.publish, "full", Message(b"1"))
        async with await aio_pika.connect(self._url) as connection:
            return await _published((await connection.channel()).default_exchange, "full", "2")

    async def nested_header(self) -> str:
        """From another client: RabbitMQ takes it."""
        value = b"V"
        for _ in range(5000):
            value = b"A" + len(value).to_bytes(4, "big") + value
        await thread(self._lab.queue, "nested")
        await self._publish_raw("nested", b"\x01a" + value)
        await thread(self._lab.publish, "nested", Message(b"the next"))
        connection = await aio_pika.connect(f"{self._url}?heartbeat=2")
        queue = await (await connection.channel()).get_queue("nested", ensure=False)
        seen: list[bytes] = []
        await queue.consume(_into(seen))
        closed = _closed(connection)
        try:
            await asyncio.wait_for(closed.wait(), 15)
            how = "closed the connection"
        except TimeoutError:
            how = "connection still open after 15 s"
        await asyncio.wait_for(connection.close(), 10)
        return f"got {seen}, {how}"

    async def _publish_raw(self, queue: str, table: bytes) -> None:
        from gateway_rabbitmq import wire
        from gateway_rabbitmq.link import Link
        from gateway_rabbitmq.login import Login

        link = await Link.open(Login("127.0.0.1", self._server.port, "/", "guest", "guest", 60, "raw", None))
        channel = await link.channel()
        properties = (1 << 13).to_bytes(2, "big") + len(table).to_bytes(4, "big") + table
        message = wire.content(channel.number, properties, b"x", link.body_max)
        link.write(wire.publish_method(channel.number, "", queue, False) + message)
        await link.close()

    async def cut(self) -> str:
        await thread(self._lab.queue, "cut", "classic")
        await thread(self._lab.publish, "cut", *(Message(b"%d" % n) for n in range(10)))
        with proxied(self._server.port) as proxy:
            connection = await aio_pika.connect(f"amqp://127.0.0.1:{proxy.port}")
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=5)
            held: list[AbstractIncomingMessage] = []

            async def hold(message: AbstractIncomingMessage) -> None:
                held.append(message)

            await (await channel.get_queue("cut", ensure=False)).consume(hold)
            await asyncio.sleep(1)
            first, closed = len(held), _closed(connection)
            await thread(proxy.cut)
            await asyncio.wait_for(closed.wait(), LIMIT_S)
        again = await thread(self._lab.take, "cut")
        redelivered = sum(bool(message.redelivered) for message in again)
        return f"prefetch 5 gave {first}; of {len(again)} then waiting, {redelivered} are marked as redelivered"

    async def silence(self) -> str:
        with proxied(self._server.port) as proxy:
            connection = await aio_pika.connect(f"amqp://127.0.0.1:{proxy.port}?heartbeat=2")
            closed = _closed(connection)
            await thread(proxy.stall)
            began = time.monotonic()
            await asyncio.wait_for(closed.wait(), LIMIT_S)
            return f"noticed after {time.monotonic() - began:.1f} s with a heartbeat of 2 s"

    async def deleted_queue(self) -> str:
        await thread(self._lab.queue, "deleted")
        async with await aio_pika.connect(self._url) as connection:
            channel = await connection.channel()
            told: list[str] = []
            (await channel.get_underlay_channel()).on_consumer_cancel_callbacks.add(
                lambda frame: told.append("consumer")
            )
            channel.close_callbacks.add(lambda *_: told.append("channel"))
            await (await channel.get_queue("deleted", ensure=False)).consume(_into([]))
            await thread(self._lab.delete, "deleted")
            await asyncio.sleep(2)
            return f"told by callbacks of {told}"

    async def refusals(self) -> str:
        await thread(self._lab.queue, "classic", "classic")
        async with await aio_pika.connect(self._url) as connection:
            missing = await _raised((await connection.channel()).declare_queue("nowhere", passive=True))
            other = (await connection.channel()).declare_queue(
                "classic", durable=True, arguments={"x-queue-type": "quorum"}
            )
            return f"{missing}; {await _raised(other)}"

    async def logins(self) -> str:
        port = self._server.port
        password = await _raised(aio_pika.connect(f"amqp://guest:wrong@127.0.0.1:{port}"))
        return f"{password}; {await _raised(aio_pika.connect(f'amqp://127.0.0.1:{port}/nowhere'))}"

    async def killed(self) -> str:
        await thread(self._lab.queue, "killed")
        while not await thread(self._lab.on_disk, "killed"):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        connection = await aio_pika.connect(self._url)
        exchange = (await connection.channel()).default_exchange
        sent = [asyncio.create_task(_published(exchange, "killed", str(n), 20)) for n in range(3000)]
        while sum(task.done() for task in sent) < 100:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await thread(self._server.kill)
        ends = await asyncio.gather(*sent)
        await thread(self._server.start)
        kept = {message.body.decode() for message in await thread(self._lab.take, "killed")}
        confirmed = {str(n) for n, end in enumerate(ends) if end == "confirmed"}
        return f"{len(confirmed)} of 3000 confirmed, {len(confirmed - kept)} of them lost"


def _into(seen: list[bytes]) -> Callable[[AbstractIncomingMessage], Awaitable[None]]:
    async def take(message: AbstractIncomingMessage) -> None:
        seen.append(message.body)
        await message.ack()

    return take


def _closed(connection: Any) -> asyncio.Event:
    closed = asyncio.Event()
    connection.close_callbacks.add(lambda *_: closed.set())
    return closed


async def _published(exchange: Any, key: str, body: str, timeout_s: float = 1.0, **properties: Any) -> str:
    try:
        found = await exchange.publish(Message(body.encode(), delivery_mode=2, **properties), key, timeout=timeout_s)
        return "confirmed" if type(found).__name__ == "Ack" else type(found).__name__
    except Exception as e:
        return type(e).__name__


async def _raised(call: Awaitable[Any]) -> str:
    try:
        await call
        return "nothing"
    except Exception as e:
        return f"{type(e).__name__}: {str(e)[:140]}"


async def play(server: RabbitMq) -> None:
    lab = Lab(server)
    for name in [name for name in vars(Faults) if not name.startswith("_")]:
        try:
            found = await asyncio.wait_for(getattr(Faults(server, lab), name)(), LIMIT_S)
        except Exception as e:
            found = f"the test itself failed: {e!r}"
        print(f"{name:14} {found}", flush=True)
    lab.close()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as scratch, servers.rabbitmq(Path(scratch)) as started:
        asyncio.run(play(started))
