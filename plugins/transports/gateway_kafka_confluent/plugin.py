"""The client that the plugin offers to `gateway_kafka`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway_core.contract.component import BuildContext, Component
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_kafka.client import KafkaClient
    from pydantic import BaseModel

    from gateway_core.contract.component import Config


def _client(options: Config, context: BuildContext) -> KafkaClient:
    from gateway_kafka.client import KafkaClient

    from .consumer import ConfluentConsumer
    from .producer import ConfluentProducer

    return KafkaClient(ConfluentProducer, ConfluentConsumer)


def _config() -> type[BaseModel]:
    from gateway_core.contract.component import Config

    return Config


@hookimpl
def gateway_clients() -> list[Component]:
    return [
        Component(
            "confluent",
            "Reaches Kafka by confluent-kafka (librdkafka): less CPU per event, and cooperative rebalances.",
            _config,
            _client,
            extra="kafka-confluent",
            requires=("confluent_kafka",),
        )
    ]
