"""The plugin's components and command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Command, Component, Transport
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic import BaseModel

    from gateway_core.contract.component import Config
    from gateway_core.contract.config_extension import ConfigFinding
    from gateway_core.contract.config_model import GatewayConfig
    from gateway_core.contract.durable import DurableNames

    from .client import KafkaClient
    from .config import KafkaChannelConfig, KafkaSinkConfig, KafkaSourceConfig

_LIBRARY: dict[str, Any] = {"extra": "kafka", "requires": ("aiokafka",)}


def _source(options: KafkaSourceConfig, context: BuildContext) -> Any:
    from .source import KafkaSource

    return KafkaSource(options, context)


def _sink(options: KafkaSinkConfig, context: BuildContext) -> Any:
    from .sink import KafkaSink

    return KafkaSink(options, context)


def _channel(options: KafkaChannelConfig, context: BuildContext) -> Any:
    from .channel import KafkaChannel

    return KafkaChannel(options, context)


def _client(options: Config, context: BuildContext) -> KafkaClient:
    from .aio.consumer import AioConsumer
    from .aio.producer import AioProducer
    from .client import KafkaClient

    return KafkaClient(AioProducer, AioConsumer)


def _client_config() -> type[BaseModel]:
    from gateway_core.contract.component import Config

    return Config


def _offsets() -> Any:
    from .commands import app

    return app


def _source_config() -> type[BaseModel]:
    from .config import KafkaSourceConfig

    return KafkaSourceConfig


def _sink_config() -> type[BaseModel]:
    from .config import KafkaSinkConfig

    return KafkaSinkConfig


def _channel_config() -> type[BaseModel]:
    from .config import KafkaChannelConfig

    return KafkaChannelConfig


@hookimpl
def gateway_transports() -> list[Transport]:
    from . import guarantees

    return [
        Transport(
            "kafka",
            source=Component(
                "kafka",
                "Reads records as a member of a consumer group (CloudEvents Kafka binding).",
                _source_config,
                _source,
                schemes=("kafka",),
                guarantees=guarantees.SOURCE,
                **_LIBRARY,
            ),
            sink=Component(
                "kafka",
                "Writes each event as a record, acknowledged by all in-sync replicas (CloudEvents Kafka binding).",
                _sink_config,
                _sink,
                schemes=("kafka",),
                guarantees=guarantees.SINK,
                **_LIBRARY,
            ),
        )
    ]


@hookimpl
def gateway_channels() -> list[Component]:
    from . import guarantees

    return [
        Component(
            "kafka",
            "Keeps events in a Kafka topic, shared by any number of gateways.",
            _channel_config,
            _channel,
            guarantees=guarantees.CHANNEL,
            **_LIBRARY,
        )
    ]


@hookimpl
def gateway_clients() -> list[Component]:
    return [
        Component("aiokafka", "Reaches Kafka by aiokafka, which is pure asyncio.", _client_config, _client, **_LIBRARY)
    ]


@hookimpl
def gateway_commands() -> list[Command]:
    return [Command("offsets", "Show and reset the offsets of consumer groups.", _offsets, panel="Look after data")]


@hookimpl
def gateway_config_checks() -> list[Callable[[GatewayConfig], Iterable[ConfigFinding]]]:
    from .config_check import clients

    return [clients]


@hookimpl
def gateway_durable_names() -> list[DurableNames]:
    from gateway_core.contract.durable import DurableNames

    from . import durable

    return [DurableNames("kafka", durable.names, durable.remove, look=durable.look)]
