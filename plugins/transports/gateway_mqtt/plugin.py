"""The plugin's components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Component, Transport
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway_core.contract.durable import DurableNames

    from .config import MqttSinkConfig, MqttSourceConfig

_LIBRARY: dict[str, Any] = {"extra": "mqtt", "requires": ("paho",), "schemes": ("mqtt", "mqtts")}


def _source(options: MqttSourceConfig, context: BuildContext) -> Any:
    from .source import MqttSource

    return MqttSource(options, context)


def _sink(options: MqttSinkConfig, context: BuildContext) -> Any:
    from .sink import MqttSink

    return MqttSink(options, context)


def _source_config() -> type[BaseModel]:
    from .config import MqttSourceConfig

    return MqttSourceConfig


def _sink_config() -> type[BaseModel]:
    from .config import MqttSinkConfig

    return MqttSinkConfig


@hookimpl
def gateway_transports() -> list[Transport]:
    from gateway_transport.connection import lost_metric

    from . import guarantees

    return [
        Transport(
            "mqtt",
            source=Component(
                "mqtt",
                "Subscribes to topics of an MQTT server; a message is acknowledged once its event is safe.",
                _source_config,
                _source,
                guarantees=guarantees.SOURCE,
                metrics=[lost_metric("mqtt", "an MQTT server")],
                **_LIBRARY,
            ),
            sink=Component(
                "mqtt",
                "Publishes each event to a topic of an MQTT server (CloudEvents MQTT binding).",
                _sink_config,
                _sink,
                guarantees=guarantees.SINK,
                metrics=[lost_metric("mqtt", "an MQTT server")],
                **_LIBRARY,
            ),
        )
    ]


@hookimpl
def gateway_durable_names() -> list[DurableNames]:
    from gateway_core.contract.durable import DurableNames

    from . import durable

    return [DurableNames("mqtt", durable.names, durable.remove, earlier=durable.earlier)]
