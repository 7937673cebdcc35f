"""How many bytes of events a source that fetches holds, if its broker takes none: each transport at a real server."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import aio_pika
import anyio
import anyio.to_thread
import nats
import pytest
import redis
from gateway_testing.suites import Kit, MemoryIntake
from gateway_testing.suites.kit import until

from gateway_core.contract.event import Message
from tests.mqtt.publisher import Publisher
from tests.websocket.rig import client

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024
ATTRIBUTES = {"specversion": "1.0", "source": "/s", "type": "t"}
Publish = Callable[[str, bytes], Awaitable[Any]]
"""Publishes an event with this id and data."""


@dataclass
class Way:
    """A transport: the source's options, how to publish, and what its `info()` calls the events that it holds, or how
    to ask for them. `loses`: nobody keeps what the source does not take."""

    source: str
    options: dict[str, Any]
    publish: Publish
    held: str | Callable[[], Awaitable[int]]
    loses: bool = False


async def mqtt(server: Any, name: str, stack: AsyncExitStack, qos: int) -> Way:
    publisher = stack.enter_context(Publisher(server.port))

    async def publish(id: str, data: bytes) -> None:
        headers = [(key.encode(), value.encode()) for key, value in {**ATTRIBUTES, "id": id}.items()]
        await anyio.to_thread.run_sync(publisher.publish, name, Message(headers, data), qos)

    options = {"server": f"127.0.0.1:{server.port}", "topic": name, "client_id": name, "qos": qos}
    return Way("mqtt", options, publish, "lag", loses=qos == 0)


async def nats_way(server: Any, name: str, stack: AsyncExitStack, jetstream: bool) -> Way:
    nc = await nats.connect(server.url)
    stack.push_async_callback(nc.close)
    js = nc.jetstream()

    async def publish(id: str, data: bytes) -> None:
        headers = {f"ce-{key}": value for key, value in {**ATTRIBUTES, "id": id}.items()}
        await (js if jetstream else nc).publish(f"{name}.in", data, headers=headers)

    options: dict[str, Any] = {"servers": server.url, "subject": f"{name}.>", "consumer": "its"}
    if jetstream:
        options |= {"stream": name, "create": {"subjects": f"{name}.>", "storage": "file"}, "start": "earliest"}
    else:
        options |= {"jetstream": False}

    async def held() -> int:
        return (await js.consumer_info(name, "its")).num_ack_pending or 0

    return Way("nats", options, publish, held if jetstream else "lag", loses=not jetstream)


async def rabbitmq(server: Any, name: str, stack: AsyncExitStack) -> Way:
    connection = await aio_pika.connect(server.url)
    stack.push_async_callback(connection.close)
    channel = await connection.channel()
    stack.push_async_callback(channel.queue_delete, name)

    async def publish(id: str, data: bytes) -> None:
        headers = {f"cloudEvents_{key}": value for key, value in {**ATTRIBUTES, "id": id}.items()}
        await channel.default_exchange.publish(aio_pika.Message(data, headers={**headers}), name)

    options = {"server": f"127.0.0.1:{server.port}", "queue": name, "declare": True}
    return Way("rabbitmq", options, publish, "unacknowledged")


async def redis_way(server: Any, name: str, stack: AsyncExitStack) -> Way:
    client = stack.enter_context(redis.Redis(port=server.port, protocol=2, socket_timeout=60))
    stack.callback(client.delete, name)

    async def publish(id: str, data: bytes) -> None:
        fields: dict[Any, Any] = {f"ce_{key}": value for key, value in {**ATTRIBUTES, "id": id}.items()}
        await anyio.to_thread.run_sync(lambda: client.xadd(name, {**fields, "data": data}))

    async def held() -> int:
        pending: Any = await anyio.to_thread.run_sync(lambda: client.xpending(name, "g"))
        return int(pending["pending"])

    return Way("redis", {"url": f"{server.url}/{name}", "group": "g", "start": "0"}, publish, held)


WAYS: dict[str, tuple[str, Callable[[Any, str, AsyncExitStack], Awaitable[Way]]]] = {
    "mqtt": ("mqtt_server", lambda server, name, stack: mqtt(server, name, stack, qos=1)),
    "mqtt qos 0": ("mqtt_server", lambda server, name, stack: mqtt(server, name, stack, qos=0)),
    "jetstream": ("nats_server", lambda server, name, stack: nats_way(server, name, stack, jetstream=True)),
    "nats": ("nats_server", lambda server, name, stack: nats_way(server, name, stack, jetstream=False)),
    "rabbitmq": ("rabbitmq_server", rabbitmq),
    "redis": ("redis_server", redis_way),
}
# the bound in the config (None: the default), the bytes of an event, and how many there are
LITTLE = (4 * MIB, 100_000, 120)
MUCH = (None, 1_000_000, 250)


@pytest.mark.spec("SAFE-115")
@pytest.mark.usefixtures("real_time")
@pytest.mark.parametrize(
    "load", [pytest.param(LITTLE, id="small"), pytest.param(MUCH, id="1MB", marks=pytest.mark.full)]
)
@pytest.mark.parametrize("way", WAYS)
async def test_a_source_holds_no_more_bytes_than_it_may(
    way: str, load: tuple[int | None, int, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    most, size, count = load
    fixture, make = WAYS[way]
    server = request.getfixturevalue(fixture)
    name = f"held-{uuid5(NAMESPACE_URL, str(tmp_path)).hex[:12]}"
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        its = await make(server, name, stack)
        given = its.options if most is None else {**its.options, "max_held_bytes": most}
        source: Any = Kit(tmp_path).source(its.source, given)
        intake = MemoryIntake()
        intake.hold = True
        await source.start(intake, tasks)
        for n in range(count):
            await its.publish(str(n), bytes(size))
        highest = last = -1
        while highest != last or last < 1:  # until no more come for a while
            last = highest
            await anyio.sleep(1)
            now = source.info()[its.held] if isinstance(its.held, str) else await its.held()
            highest = max(highest, now)
        assert highest * size <= (most or 64 * MIB) + size
        intake.release()
        if not its.loses:
            await until(lambda: len(intake.safe) >= count, "all events once there is room")
            assert [event.attributes["id"] for event in intake.safe] == [str(n) for n in range(count)]
        await source.stop()
        tasks.cancel_scope.cancel()


@pytest.mark.spec("SAFE-116")
@pytest.mark.usefixtures("real_time")
@pytest.mark.parametrize("way", [way for way in WAYS if way != "mqtt qos 0"])
async def test_what_is_larger_than_the_bound_comes_in(way: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    fixture, make = WAYS[way]
    server = request.getfixturevalue(fixture)
    name = f"held-{uuid5(NAMESPACE_URL, str(tmp_path)).hex[:12]}"
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        its = await make(server, name, stack)
        source: Any = Kit(tmp_path).source(its.source, {**its.options, "max_held_bytes": 64 * 1024})
        intake = MemoryIntake()
        await source.start(intake, tasks)
        for n in range(5):
            await its.publish(str(n), bytes(1_000_000))
            await until(lambda n=n: len(intake.safe) == n + 1, "the event")  # type: ignore[misc]
        await source.stop()
        tasks.cancel_scope.cancel()


@pytest.mark.full
@pytest.mark.spec("SAFE-115")
@pytest.mark.usefixtures("real_time")
async def test_a_long_pause_keeps_the_connection_to_rabbitmq(tmp_path: Path, rabbitmq_server: Any) -> None:
    """Heartbeats and answers wait unread, for longer than each may take."""
    name = f"held-{uuid5(NAMESPACE_URL, str(tmp_path)).hex[:12]}"
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        its = await rabbitmq(rabbitmq_server, name, stack)
        options = {**its.options, "max_held_bytes": 64 * 1024, "heartbeat_s": 2}
        source: Any = Kit(tmp_path).source("rabbitmq", options)
        intake = MemoryIntake()
        intake.hold = True
        await source.start(intake, tasks)
        await anyio.sleep(4.9)  # so that it asks for the queue's length at about the time of the pause
        for n in range(20):
            await its.publish(str(n), bytes(1_000_000))
        await anyio.sleep(28)
        assert source.info()["connections_lost"] == 0
        intake.release()
        await until(lambda: len(intake.safe) == 20, "all events")
        assert (source.info()["connections_lost"], source.info()["redelivered"]) == (0, 0)
        await source.stop()
        tasks.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.spec("SAFE-115")
async def test_many_websocket_connections_have_one_bound(tmp_path: Path) -> None:
    intake = MemoryIntake()
    intake.hold = True
    text = json.dumps({**ATTRIBUTES, "data": "x" * 50_000})
    source: Any = Kit(tmp_path).source("websocket", {"listen": "127.0.0.1:0", "max_held_bytes": MIB})
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        await source.start(intake, tasks)
        senders = [await stack.enter_async_context(client(source.address, max_size=None)) for _ in range(10)]

        async def send(number: int) -> None:
            for n in range(20):
                await senders[number].send(text.replace("{", f'{{"id":"{number}-{n}",', 1))

        async with anyio.create_task_group() as sending:
            for number in range(10):
                sending.start_soon(send, number)
            highest = last = -1
            while highest != last or last < 1:
                last = highest
                await anyio.sleep(0.5)
                highest = source.info()["unacknowledged"]
            assert highest * len(text) <= MIB + 10 * 300_000, "the bound, and what one read of each connection brought"
            intake.release()
        await until(lambda: len(intake.safe) == 200, "all events once there is room")
        await source.stop()
        tasks.cancel_scope.cancel()
