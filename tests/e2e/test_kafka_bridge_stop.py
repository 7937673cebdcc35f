"""A bridge from Kafka that ends while its sink refuses everything."""

from __future__ import annotations

import threading
from pathlib import Path
from uuid import uuid4

import pytest
from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess, Received, Subscriber

from tests.kafka_broker import CLIENTS, producer

# the places are committed at the stop only, which would take a minute if it waited for what is not under way
CONFIG = """
bridges:
  out:
    source:
      kafka:
        {bootstrap: "BOOTSTRAP", topic: TOPIC, group: TOPIC, start: earliest, client: CLIENT, drain_s: 60,
         commit_interval_s: 3600}
    sink: URL
    delivery: {backoff_delay_s: 300, backoff_max_s: 300}
"""
TAKEN, ALL = 30, 40


def write(kafka: KafkaBroker, topic: str) -> None:
    writing = producer(kafka.bootstrap)
    for number in range(ALL):
        own = {"specversion": "1.0", "source": "/s", "type": "t", "id": str(number)}
        writing.produce(topic, b"", headers=[(f"ce_{n}", v.encode()) for n, v in own.items()], partition=number % 2)
    assert writing.flush(30) == 0


@pytest.mark.parametrize("client", CLIENTS)
def test_what_waits_for_its_retry_holds_up_no_stop(client: str, tmp_path: Path, kafka: KafkaBroker) -> None:
    topic = f"stop-{uuid4().hex[:8]}"
    kafka.create_topic(topic, 2)
    write(kafka, topic)
    refusing = True

    def answer(received: Received) -> int:
        return 503 if refusing and int(received.headers["ce-id"]) >= TAKEN else 202

    config = CONFIG.replace("BOOTSTRAP", kafka.bootstrap).replace("TOPIC", topic).replace("CLIENT", client)
    with Subscriber(decide=answer) as s, GatewayProcess(config.replace("URL", s.url), tmp_path) as gateway:
        gateway.wait_until(lambda: len(s.requests) == ALL, 60, "an attempt for each event")
        assert gateway.stop() == 0
        refusing = False
        s.requests.clear()
        gateway.start()
        gateway.wait_until(lambda: len(s.requests) >= ALL - TAKEN, 60, "the others")
        assert sorted(int(r.headers["ce-id"]) for r in s.requests) == list(range(TAKEN, ALL))
        assert gateway.stop() == 0


@pytest.mark.parametrize("client", CLIENTS)
def test_what_takes_longer_than_a_stop_may_brings_nothing_back_that_was_done(
    client: str, tmp_path: Path, kafka: KafkaBroker
) -> None:
    topic = f"stop-{uuid4().hex[:8]}"
    kafka.create_topic(topic, 2)
    write(kafka, topic)
    go_on = threading.Event()

    def answer(received: Received) -> int:
        if int(received.headers["ce-id"]) >= TAKEN:
            go_on.wait(60)
        return 202

    config = CONFIG.replace("BOOTSTRAP", kafka.bootstrap).replace("TOPIC", topic).replace("CLIENT", client)
    env = {"TIDEGATE_DRAIN_TIMEOUT_S": "0.5"}
    with Subscriber(decide=answer) as s, GatewayProcess(config.replace("URL", s.url), tmp_path, env) as gateway:
        try:
            gateway.wait_until(lambda: len(s.requests) == ALL, 60, "an attempt for each event")
            assert gateway.stop() == 0
        finally:
            go_on.set()
        s.requests.clear()
        gateway.start()
        gateway.wait_until(lambda: len(s.requests) >= ALL - TAKEN, 60, "the others")
        assert sorted(int(r.headers["ce-id"]) for r in s.requests) == list(range(TAKEN, ALL))
        assert gateway.stop() == 0
