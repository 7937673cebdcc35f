"""A pytest plugin: real Kafka brokers.

Where the jars can't be had, or there is no Java, the tests fail with that reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from gateway_java.kafka import KafkaBroker

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext
from tests.kafka_secure import SecureKafka, start
from tests.kafka_shared import PROPERTIES, shared_broker

if TYPE_CHECKING:
    from confluent_kafka import Producer

# End to end one client does, and for `make test` everywhere: that both do the same, the tests in tests/kafka show
CLIENTS = ("aiokafka", pytest.param("confluent", marks=pytest.mark.full))
TWIN_CLIENTS = ("aiokafka", pytest.param("confluent", marks=pytest.mark.area(name="kafka_second_client")))

CHANNEL = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0"}
    channel:
      kafka: {bootstrap: "BOOTSTRAP", topic: TOPIC, client: CLIENT, group_prefix: TOPIC, session_timeout_s: 6}
    delivery: {retry: 4, backoff_delay_s: 0.05, backoff_max_s: 0.2}
triggers:
"""


def channel_config(kafka: KafkaBroker, client: str) -> str:
    """A broker on a topic of its own, up to its triggers."""
    text = CHANNEL.replace("BOOTSTRAP", kafka.bootstrap).replace("TOPIC", f"channel-{uuid4().hex[:8]}")
    return text.replace("CLIENT", client)


def context() -> BuildContext:
    """What a component of Kafka is built with, with all plugins that are installed."""
    return BuildContext("test", Path(), SystemClock(), Registry.installed())


def producer(bootstrap: str, **options: Any) -> Producer:
    """A client that is not ours. Idempotent: a batch that is sent again, because its topic is so new, must not change
    the order."""
    from confluent_kafka import Producer

    quiet = {"log.connection.close": False}
    return Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **quiet, **options})


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that all tests of this run share: use topics and groups of your own. `bootstrap` is its address."""
    of_worker = tmp_path_factory.getbasetemp()
    of_run = of_worker.parent if "PYTEST_XDIST_WORKER" in os.environ else of_worker
    with shared_broker(of_run / "kafka") as broker:
        yield broker


@pytest.fixture(scope="session")
def _idle_brokers() -> Iterator[list[KafkaBroker]]:
    """Brokers that a test had to itself; a new one costs seconds of CPU time until it is warm."""
    idle: list[KafkaBroker] = []
    yield idle
    for broker in idle:
        broker.kill()


@pytest.fixture
def own_kafka(
    tmp_path_factory: pytest.TempPathFactory, _idle_brokers: list[KafkaBroker]
) -> Iterator[Callable[..., KafkaBroker]]:
    """Starts a broker that nobody else uses meanwhile: `own_kafka()`, to be killed and started again. It may have
    topics and groups of earlier tests. Its tests run in one worker."""
    made: list[KafkaBroker] = []

    def make() -> KafkaBroker:
        folder = tmp_path_factory.mktemp("own-kafka")
        made.append(_idle_brokers.pop() if _idle_brokers else KafkaBroker(folder, properties=PROPERTIES))
        made[-1].start()
        return made[-1]

    yield make
    _idle_brokers += made


@pytest.fixture(scope="session")
def secure_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """A broker with TLS and SASL listeners, and credentials for them. Its tests run in one worker."""
    secure = start(tmp_path_factory.mktemp("secure-kafka"))
    yield secure
    secure.broker.kill()
