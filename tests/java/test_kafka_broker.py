"""The Kafka broker for tests and for local use: it is there, keeps what it has, and leaves nothing behind."""

from __future__ import annotations

import pytest
from gateway_java.kafka import KafkaBroker

from gateway_core.errors import StartError


def test_topics_are_made_once(kafka: KafkaBroker) -> None:
    assert kafka.create_topic("made-once", 3)
    assert not kafka.create_topic("made-once", 3)
    with pytest.raises(StartError, match="can't create the topic"):
        kafka.create_topic("not a topic's name", 1)
