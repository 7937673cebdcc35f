"""What a group commits along with its offsets: where it began, and the id of the topic."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition
from gateway_kafka.client import began_in, is_of_deleted_topic, offset_metadata, topic_id_in
from gateway_kafka_confluent.assignment import _metadata

from tests.kafka_broker import KafkaBroker

ID = "c2271263f9314986bcb8a3d6571ad3eb"


@pytest.mark.pure
@pytest.mark.spec("SAFE-231")
@pytest.mark.parametrize("after", ["", "\x07k", "f00", "\ufffd=3"])
def test_the_id_is_found_whatever_follows(after: str) -> None:
    """confluent_kafka reads on behind the end of the metadata."""
    for began in (None, 0, 57):
        metadata = offset_metadata(ID, began) + after
        assert topic_id_in(metadata) == ID
        assert began_in(metadata) == began
        assert not is_of_deleted_topic(metadata, ID)
        assert is_of_deleted_topic(metadata, "0" * 32)
    assert (topic_id_in(offset_metadata("")), began_in("other words"), topic_id_in(None)) == ("", None, "")
    assert began_in(offset_metadata("", 5)) == 5


@pytest.mark.spec("SAFE-231")
def test_librdkafka_gives_what_was_committed(kafka: KafkaBroker) -> None:
    kafka.create_topic(f"words-{ID}", 8)
    client = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"words-{ID}"})
    try:
        for began in range(0, 10**9, 10**8):
            words = [offset_metadata(ID, began + n) for n in range(8)]
            there = [TopicPartition(f"words-{ID}", n, 5, text) for n, text in enumerate(words)]
            client.commit(offsets=there, asynchronous=False)
            for one in client.committed(there, timeout=20):
                assert topic_id_in(_metadata(one)) == ID
    finally:
        client.close()
