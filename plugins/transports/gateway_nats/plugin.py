"""The plugin's components."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Component, Transport
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway_core.contract.config_extension import ConfigFinding
    from gateway_core.contract.config_model import GatewayConfig
    from gateway_core.contract.durable import DurableNames

    from .config import JetStreamChannelConfig, NatsSinkConfig, NatsSourceConfig


_LIBRARY: dict[str, Any] = {"extra": "nats", "requires": ("nats",)}


def _source(options: NatsSourceConfig, context: BuildContext) -> Any:
    from .source import NatsSource

    return NatsSource(options, context)


def _sink(options: NatsSinkConfig, context: BuildContext) -> Any:
    from .sink import NatsSink

    return NatsSink(options, context)


def _channel(options: JetStreamChannelConfig, context: BuildContext) -> Any:
    from .channel import JetStreamChannel

    return JetStreamChannel(options, context)


def _source_config() -> type[BaseModel]:
    from .config import NatsSourceConfig

    return NatsSourceConfig


def _sink_config() -> type[BaseModel]:
    from .config import NatsSinkConfig

    return NatsSinkConfig


def _channel_config() -> type[BaseModel]:
    from .config import JetStreamChannelConfig

    return JetStreamChannelConfig


@hookimpl
def gateway_transports() -> list[Transport]:
    from gateway_transport.connection import lost_metric

    from . import guarantees

    return [
        Transport(
            "nats",
            source=Component(
                "nats",
                "Reads a stream of NATS JetStream, or listens with core NATS (CloudEvents NATS binding).",
                _source_config,
                _source,
                schemes=("nats", "tls"),
                guarantees=guarantees.SOURCE,
                metrics=[lost_metric("nats", "NATS")],
                **_LIBRARY,
            ),
            sink=Component(
                "nats",
                "Publishes each event to a stream of NATS JetStream, or with core NATS (CloudEvents NATS binding).",
                _sink_config,
                _sink,
                schemes=("nats", "tls"),
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
            "jetstream",
            "Keeps events in a stream of NATS JetStream, shared by any number of gateways.",
            _channel_config,
            _channel,
            guarantees=guarantees.CHANNEL,
            **_LIBRARY,
        )
    ]


@hookimpl
def gateway_config_checks() -> list[Callable[[GatewayConfig], Iterable[ConfigFinding]]]:
    from .config_check import consumers, ordered, readers

    return [readers, ordered, consumers]


@hookimpl
def gateway_durable_names() -> list[DurableNames]:
    from gateway_core.contract.durable import DurableNames

    from . import durable

    return [DurableNames("nats", durable.names, durable.remove, look=durable.look)]
