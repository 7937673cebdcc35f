"""Kafka's console tools, as the tests use them, show and write exactly what is said."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from gateway_java.kafka import KafkaBroker

from tests import kafka_console

pytestmark = pytest.mark.area(name="dev")

ALL = bytes(range(256))


def test_every_byte_is_seen(kafka: KafkaBroker) -> None:
    kafka.create_topic("console-bytes")
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce("console-bytes", ALL, ALL[::-1], headers=[("h", ALL), ("null", None), ("h", b"")])
    producer.produce("console-bytes", None, b"\\x00\x1d\n")
    producer.produce("console-bytes", b"", None)
    assert producer.flush(30) == 0
    assert kafka_console.consume(kafka.bootstrap, "console-bytes", 3) == [
        (0, 0, ALL[::-1], ALL, [(b"h", ALL), (b"null", None), (b"h", b"")]),
        (0, 1, b"\\x00\x1d\n", None, []),
        (0, 2, None, b"", []),
    ]
    with pytest.raises(AssertionError, match=r"[0-3] of 4 records"):
        kafka_console.consume(kafka.bootstrap, "console-bytes", 4, limit_s=3)


def test_texts_and_nulls_are_written(kafka: KafkaBroker) -> None:
    kafka.create_topic("console-texts")
    headers = [("ce_id", "1"), ("null", None), ("empty", ""), ("ü", "a:b, c")]
    records = [("key", "value", headers), (None, None, []), ("", "ü\\", [])]
    kafka_console.produce(kafka.bootstrap, "console-texts", records)
    assert kafka_console.consume(kafka.bootstrap, "console-texts", 3) == [
        (0, 0, b"key", b"value", [(n.encode(), None if v is None else v.encode()) for n, v in headers]),
        (0, 1, None, None, []),
        (0, 2, b"", "ü\\".encode(), []),
    ]
