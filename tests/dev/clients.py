"""Each server's own client: stores a text, reads it back, and sees whether a user may connect."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

import aio_pika
import nats
import paho.mqtt.client as paho
import redis
from aio_pika.exceptions import AMQPConnectionError
from gateway_dev.servers import Server
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from redis.backoff import NoBackoff
from redis.retry import Retry

LIMIT_S = 60.0
T = TypeVar("T")


class Client(Protocol):
    """What a test does with a server."""

    def put(self, server: Server, user: str, text: str) -> None:
        """Stores a text that survives a kill, and returns once the server has acknowledged it."""

    def get(self, server: Server, user: str) -> str:
        """The text."""

    def connects(self, server: Server, user: str, password: str) -> bool:
        """Whether the server takes this user."""


class Mqtt:
    def put(self, server: Server, user: str, text: str) -> None:
        client = self._connected(server, user, server.users[user])
        sent = client.publish("kept", text, qos=1, retain=True)
        while not sent.is_published():
            assert client.loop(LIMIT_S) is MQTTErrorCode.MQTT_ERR_SUCCESS
        client.disconnect()
        assert server.saved()

    def get(self, server: Server, user: str) -> str:
        client = self._connected(server, user, server.users[user])
        found: list[str] = []
        client.on_message = lambda *args: found.append(args[2].payload.decode())
        client.subscribe("kept", qos=1)
        while not found:
            assert client.loop(LIMIT_S) is MQTTErrorCode.MQTT_ERR_SUCCESS
        client.disconnect()
        return found[0]

    def connects(self, server: Server, user: str, password: str) -> bool:
        try:
            self._connected(server, user, password).disconnect()
        except PermissionError:
            return False
        return True

    def _connected(self, server: Server, user: str, password: str) -> paho.Client:
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        client.username_pw_set(user, password)
        codes: list[Any] = []
        client.on_connect = lambda *args: codes.append(args[3])
        client.connect("127.0.0.1", server.port)
        while not codes:
            client.loop(LIMIT_S)
        if codes[0].is_failure:
            raise PermissionError(str(codes[0]))
        return client


class Nats:
    def put(self, server: Server, user: str, text: str) -> None:
        async def work() -> None:
            connection = await nats.connect(server.url, user=user, password=server.users[user])
            stream = connection.jetstream()
            await stream.add_stream(name="kept", subjects=["kept"])
            await stream.publish("kept", text.encode())
            await connection.close()

        _run(work())

    def get(self, server: Server, user: str) -> str:
        async def work() -> str:
            connection = await nats.connect(server.url, user=user, password=server.users[user])
            message = await connection.jetstream().get_last_msg("kept", "kept")
            await connection.close()
            return (message.data or b"").decode()

        return _run(work())

    def connects(self, server: Server, user: str, password: str) -> bool:
        login = json.dumps({"user": user, "pass": password, "verbose": False, "pedantic": False})
        with socket.create_connection(("127.0.0.1", server.port), LIMIT_S) as s, s.makefile("rb") as said:
            assert said.readline().startswith(b"INFO")
            s.sendall(f"CONNECT {login}\r\nPING\r\n".encode())
            return said.readline().startswith(b"PONG")


class RabbitMq:
    def put(self, server: Server, user: str, text: str) -> None:
        async def work() -> None:
            async with await aio_pika.connect(server.url_of(user)) as connection, connection.channel() as channel:
                queue = await channel.declare_queue("kept", durable=True)
                message = aio_pika.Message(text.encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
                await channel.default_exchange.publish(message, queue.name)

        _run(work())

    def get(self, server: Server, user: str) -> str:
        async def work() -> str:
            async with await aio_pika.connect(server.url_of(user)) as connection, connection.channel() as channel:
                queue = await channel.declare_queue("kept", passive=True)
                message = await queue.get()
                await message.nack()
                return message.body.decode()

        return _run(work())

    def connects(self, server: Server, user: str, password: str) -> bool:
        async def work() -> bool:
            try:
                await (await aio_pika.connect(port=server.port, login=user, password=password)).close()
            except AMQPConnectionError:
                return False
            return True

        return _run(work())


class Redis:
    def put(self, server: Server, user: str, text: str) -> None:
        with redis.Redis.from_url(server.url_of(user)) as client:
            client.set("kept", text)

    def get(self, server: Server, user: str) -> str:
        with redis.Redis.from_url(server.url_of(user), decode_responses=True) as client:
            return str(client.get("kept"))

    def connects(self, server: Server, user: str, password: str) -> bool:
        with redis.Redis(port=server.port, username=user, password=password, retry=Retry(NoBackoff(), 0)) as client:
            try:
                return bool(client.ping())
            except redis.AuthenticationError:
                return False


CLIENTS: dict[str, Client] = {"mqtt": Mqtt(), "nats": Nats(), "rabbitmq": RabbitMq(), "redis": Redis()}


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, LIMIT_S))
