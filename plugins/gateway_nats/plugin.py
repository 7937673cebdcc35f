"""The plugin's components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Component, Transport
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from .config import NatsSinkConfig, NatsSourceConfig


_LIBRARY: dict[str, Any] = {"extra": "nats", "requires": ("nats",)}


def _source(options: NatsSourceConfig, context: BuildContext) -> Any:
    from .source import NatsSource

    return NatsSource(options, context)


def _sink(options: NatsSinkConfig, context: BuildContext) -> Any:
    from .sink import NatsSink

    return NatsSink(options, context)


@hookimpl
def gateway_transports() -> list[Transport]:
    from . import guarantees
    from .config import NatsSinkConfig, NatsSourceConfig

    return [
        Transport(
            "nats",
            source=Component(
                "nats",
                "Reads a stream of NATS JetStream, or listens with core NATS (CloudEvents NATS binding).",
                NatsSourceConfig,
                _source,
                schemes=("nats", "tls"),
                guarantees=guarantees.SOURCE,
                **_LIBRARY,
            ),
            sink=Component(
                "nats",
                "Publishes each event to a stream of NATS JetStream, or with core NATS (CloudEvents NATS binding).",
                NatsSinkConfig,
                _sink,
                schemes=("nats", "tls"),
                guarantees=guarantees.SINK,
                **_LIBRARY,
            ),
        )
    ]
