"""A connection to Kafka that has just been closed: a request fails as on any broken connection."""

from __future__ import annotations

import asyncio

import pytest
import uvloop
from aiokafka.conn import create_conn
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest
from gateway_kafka.aio.options import connection_options
from gateway_kafka.client_config import KafkaConfig

from tests.kafka_broker import KafkaBroker


@pytest.mark.spec("SAFE-65")
def test_a_request_on_a_connection_that_was_just_closed_fails_as_on_a_broken_one(kafka: KafkaBroker) -> None:
    config = KafkaConfig(bootstrap=(kafka.bootstrap,))
    host, port = kafka.bootstrap.split(":")

    async def ask() -> None:
        for turns in range(6):  # of the loop, until aiokafka hears of the end
            connection = await create_conn(host, int(port), **connection_options(config))
            await connection.send(MetadataRequest([]))
            connection._writer.transport.abort()
            for _ in range(turns):
                await asyncio.sleep(0)
            with pytest.raises(KafkaConnectionError):
                await connection.send(MetadataRequest([]))
            assert not connection.connected()

    uvloop.run(ask())
