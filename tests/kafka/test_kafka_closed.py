"""A connection to Kafka that has just been closed: a request fails as on any broken connection."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
import uvloop
from aiokafka import client, conn
from aiokafka.conn import AIOKafkaConnection
from aiokafka.consumer import fetcher
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.record import memory_records
from gateway_kafka.admin import Admin
from gateway_kafka.aio.options import connection_options
from gateway_kafka.aio.private.connections import connect
from gateway_kafka.aio.producer_connection import ProducerConnection
from gateway_kafka.aio.session import close, connected
from gateway_kafka.client_config import KafkaConfig, KafkaProducerConfig
from gateway_kafka.health import Health

from tests.kafka_broker import KafkaBroker


@pytest.mark.spec("SAFE-65")
def test_a_request_on_a_connection_that_was_just_closed_fails_as_on_a_broken_one(kafka: KafkaBroker) -> None:
    config = KafkaConfig(bootstrap=(kafka.bootstrap,))
    host, port = kafka.bootstrap.split(":")

    async def ask() -> None:
        for turns in range(6):  # of the loop, until aiokafka hears of the end
            connection: Any = await connect(host, int(port), **connection_options(config))
            await connection.send(MetadataRequest([]))
            await _fails_once_cut(connection, turns)

    uvloop.run(ask())


@pytest.mark.spec("SAFE-65")
def test_so_it_does_on_the_connections_of_every_client(kafka: KafkaBroker) -> None:
    config = KafkaConfig(bootstrap=(kafka.bootstrap,))

    async def ask() -> None:
        async with Admin(config) as admin:
            await admin.groups()
            await _each_fails_once_cut(admin.client)
            await admin.groups()  # over a new connection
        consumer, _ = await connected(config, "closed", 10)
        await _each_fails_once_cut(consumer._client)
        await close(consumer)
        async with anyio.create_task_group() as tasks:
            producers = ProducerConnection(
                KafkaProducerConfig(bootstrap=(kafka.bootstrap,)), Health("here"), list, lambda: None
            )
            tasks.start_soon(producers.run)
            await producers.tried.wait()
            assert producers.client is not None
            await _each_fails_once_cut(producers.client.producer.client)
            tasks.cancel_scope.cancel()

    uvloop.run(ask())


def test_other_users_of_aiokafka_have_it_as_it_is(kafka: KafkaBroker) -> None:
    config = KafkaConfig(bootstrap=(kafka.bootstrap,))

    async def use() -> None:
        async with Admin(config):
            consumer, _ = await connected(config, "closed", 10)
            await close(consumer)

    uvloop.run(use())
    for method in (AIOKafkaConnection.send, AIOKafkaConnection._send_sasl_token, AIOKafkaConnection.close):
        assert method.__code__.co_filename == conn.__file__
    assert client.create_conn is conn.create_conn
    assert fetcher.MemoryRecords is memory_records.MemoryRecords


async def _each_fails_once_cut(made: Any) -> None:
    with anyio.fail_after(30):
        while not (await made.ready(made.get_random_node())):  # noqa: ASYNC110
            await anyio.sleep(0.05)
    assert made._conns
    for connection in list(made._conns.values()):
        await _fails_once_cut(connection, 0)


async def _fails_once_cut(connection: Any, turns: int) -> None:
    connection._writer.transport.abort()
    for _ in range(turns):
        await asyncio.sleep(0)
    with pytest.raises(KafkaConnectionError):
        await connection.send(MetadataRequest([]))
    assert not connection.connected()
