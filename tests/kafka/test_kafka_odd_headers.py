"""Records with headers whose names are not UTF-8, which no client library of ours would write."""

from __future__ import annotations

import time
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as Builder
from gateway_java.kafka import KafkaBroker

from tests.kafka.test_kafka_consumers import member, name_of, write
from tests.kafka_broker import TWIN_CLIENTS

pytestmark = pytest.mark.anyio
GZIP = 1


class NotUtf8(str):
    def encode(self, *_: Any) -> bytes:
        return b"\xff\xfe"


async def write_batch(bootstrap: str, topic: str, compression: int) -> None:
    """One batch of three records, the second of which has such a header."""
    batch = Builder(
        magic=2,
        compression_type=compression,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10_000,
    )
    for number, headers in enumerate(([("a", b"1")], [("b", b"2"), (NotUtf8("xx"), b"3")], [("c", b"4")])):
        now = int(time.time() * 1000)
        batch.append(number, timestamp=now, key=b"key", value=b"%d" % number, headers=headers)
    client: Any = AIOKafkaClient(bootstrap_servers=bootstrap)
    await client.bootstrap()
    request = ProduceRequest(None, -1, 10_000, [(topic, [(0, bytes(batch.build()))])])
    answer = await client.send(client.get_random_node(), request)
    assert answer.topics[0][1][0][1] == 0
    await client.close()


@pytest.mark.spec("SAFE-64")
@pytest.mark.parametrize("compression", [0, GZIP], ids=["plain", "gzip"])
@pytest.mark.parametrize("client", TWIN_CLIENTS)
async def test_a_header_that_is_not_utf8_holds_up_nothing(kafka: KafkaBroker, client: str, compression: int) -> None:
    topic = name_of("odd")
    kafka.create_topic(topic)
    write(kafka.bootstrap, topic, [b"before"])
    await write_batch(kafka.bootstrap, topic, compression)
    write(kafka.bootstrap, topic, [b"after"])
    async with member(client, kafka.bootstrap, name_of("group"), topic) as reading:
        await reading.until(lambda: len(reading.values) == 5)
        assert reading.values == [b"before", b"0", b"1", b"2", b"after"]
        found = [list(map(tuple, record.headers)) for record in reading.records[topic, 0]]
        odd = [("b", b"2"), ("\ufffd\ufffd", b"3")]
        if client == "confluent":  # which forgets all headers of such a record
            odd = [("unreadable", b"none of the headers can be read: a name is not UTF-8")]
        assert found == [[], [("a", b"1")], odd, [("c", b"4")], []]
        assert reading.consumer is not None
        assert reading.consumer.fault is None
