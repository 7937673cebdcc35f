"""NATS JetStream: the stream `in` goes through the gateway into the stream `out`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import nats
from nats.errors import TimeoutError as NoMessage
from nats.js import JetStreamContext, api
from nats.js.errors import NotFoundError

from tests.faults.adapter import Arrived, Place, read_structured, structured

T = TypeVar("T")


class Nats:
    """A server that is killed has written its files: it answers after the write, and leaves the fsync to the system."""

    name = "nats"
    server = "nats"
    server_settings = ""
    ordered = True
    ordered_workers = False  # they share the consumer: each gets other messages

    def __init__(self) -> None:
        self._read = 0  # up to here the stream `out` was collected

    def prepare(self, at: Place) -> None:
        async def make(js: JetStreamContext) -> None:
            for name in ("in", "out"):
                await js.add_stream(name=name, subjects=[f"{name}.>"], max_bytes=-1, discard="new")

        _ask(at, make)

    def source(self, at: Place) -> str:
        return f"nats: {{{_server(at)}, subject: in.>, start: earliest, ack_wait_s: 2}}"

    def sink(self, at: Place) -> str:
        return f"{{nats: {{{_server(at)}, subject: out.events}}}}"

    def send(self, at: Place, numbers: Sequence[int], acknowledged: Callable[[int], None]) -> None:
        async def publish(js: JetStreamContext) -> None:
            sent = [await js.publish_async("in.events", structured(number)) for number in numbers]
            for number, answer in zip(numbers, sent, strict=True):
                await asyncio.wait_for(answer, 10)
                acknowledged(number)

        _ask(at, publish)

    def poison(self, at: Place) -> None:
        _ask(at, lambda js: js.publish("in.poison", b'{"specversion": "1.0"'))

    def collect(self, at: Place, arrived: Callable[[Arrived], None], ended: threading.Event) -> None:
        async def read(js: JetStreamContext) -> None:
            start = api.ConsumerConfig(deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=self._read + 1)
            subscription = await js.subscribe("out.>", ordered_consumer=True, config=start)
            while not ended.is_set():
                try:
                    message = await subscription.next_msg(0.2)
                except NoMessage:
                    continue
                arrived(read_structured(message.data))
                self._read = message.metadata.sequence.stream

        _ask(at, read)

    def evict(self, at: Place) -> None:
        async def delete(js: JetStreamContext) -> None:
            while True:
                try:
                    await js.delete_consumer("in", "tidegate_default")
                except NotFoundError:  # the gateway has not made it again yet
                    await asyncio.sleep(0.02)
                else:
                    return

        _ask(at, delete)

    def fill(self, at: Place, full: bool) -> bool:
        async def limit(js: JetStreamContext) -> None:
            info = await js.stream_info("out")
            await js.update_stream(info.config.evolve(max_bytes=max(1024, info.state.bytes) if full else -1))

        _ask(at, limit)
        return True


def _server(at: Place) -> str:
    return f'servers: "nats://{at.host}:{at.port}", user: {at.user}, password: {at.password}'


def _ask(at: Place, question: Callable[[JetStreamContext], Coroutine[Any, Any, T]]) -> T:
    async def asked() -> T:
        nc = await nats.connect(
            f"nats://{at.host}:{at.port}", user=at.user, password=at.password, allow_reconnect=False, connect_timeout=5
        )
        try:
            return await question(nc.jetstream(timeout=10))
        finally:
            await nc.close()

    return asyncio.run(asked())


ADAPTER = Nats
