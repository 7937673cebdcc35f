"""The plugin's components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Component, Transport
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway_core.contract.durable import DurableNames

    from .config import RabbitSinkConfig, RabbitSourceConfig

_LIBRARY: dict[str, Any] = {"extra": "rabbitmq", "requires": ("pamqp",), "schemes": ("amqp", "amqps")}


def _source(options: RabbitSourceConfig, context: BuildContext) -> Any:
    from .source import RabbitSource

    return RabbitSource(options, context)


def _sink(options: RabbitSinkConfig, context: BuildContext) -> Any:
    from .sink import RabbitSink

    return RabbitSink(options, context)


def _source_config() -> type[BaseModel]:
    from .config import RabbitSourceConfig

    return RabbitSourceConfig


def _sink_config() -> type[BaseModel]:
    from .config import RabbitSinkConfig

    return RabbitSinkConfig


@hookimpl
def gateway_transports() -> list[Transport]:
    from gateway_transport.connection import lost_metric

    from . import guarantees

    return [
        Transport(
            "rabbitmq",
            source=Component(
                "rabbitmq",
                "Consumes a queue of RabbitMQ (AMQP 0-9-1).",
                _source_config,
                _source,
                guarantees=guarantees.SOURCE,
                metrics=[lost_metric("rabbitmq", "RabbitMQ")],
                **_LIBRARY,
            ),
            sink=Component(
                "rabbitmq",
                "Publishes each event as a message to RabbitMQ (AMQP 0-9-1), confirmed by the server.",
                _sink_config,
                _sink,
                guarantees=guarantees.SINK,
                metrics=[lost_metric("rabbitmq", "RabbitMQ")],
                **_LIBRARY,
            ),
        )
    ]


@hookimpl
def gateway_durable_names() -> list[DurableNames]:
    from gateway_core.contract.durable import DurableNames

    from . import durable

    return [DurableNames("rabbitmq", durable.names, durable.remove, look=durable.look)]
