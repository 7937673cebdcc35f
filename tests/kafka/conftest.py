"""The lab that the tests of the Kafka binding share: one for each client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess, Subscriber

from tests.kafka_broker import CLIENTS
from tests.kafka_console import Follower
from tests.kafka_lab import OUT, Lab, bridges


@pytest.fixture(scope="session")
def written(kafka: KafkaBroker) -> Iterator[Follower]:
    kafka.create_topic(OUT, 4)
    with Follower(kafka.bootstrap, OUT) as records:
        yield records


@pytest.fixture(scope="session", params=CLIENTS)
def lab(
    request: pytest.FixtureRequest, kafka: KafkaBroker, written: Follower, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    client = request.param
    for topic in ("in", "odd"):
        kafka.create_topic(f"{topic}-{OUT}-{client}", 4)
    with Subscriber() as subscriber:
        config = bridges(client, kafka.bootstrap, subscriber.url)
        with GatewayProcess(config, tmp_path_factory.mktemp(client)) as gateway:
            yield Lab(client, gateway, subscriber, written, kafka.bootstrap)
