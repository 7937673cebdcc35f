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
    from gateway_core.contract.errors import Probe
    from gateway_core.contract.settings import Settings

    from .config import RedisSinkConfig, RedisSourceConfig

_LIBRARY: dict[str, Any] = {"extra": "redis", "requires": ("redis",), "schemes": ("redis", "rediss")}


def _source(options: RedisSourceConfig, context: BuildContext) -> Any:
    from .source import RedisSource

    return RedisSource(options, context)


def _sink(options: RedisSinkConfig, context: BuildContext) -> Any:
    from .sink import RedisSink

    return RedisSink(options, context)


def _durability(config: GatewayConfig, settings: Settings) -> list[Probe]:
    from .durability import durability

    return durability(config)


def _source_config() -> type[BaseModel]:
    from .config import RedisSourceConfig

    return RedisSourceConfig


def _sink_config() -> type[BaseModel]:
    from .config import RedisSinkConfig

    return RedisSinkConfig


@hookimpl
def gateway_transports() -> list[Transport]:
    from gateway_transport.connection import lost_metric

    from . import guarantees

    return [
        Transport(
            "redis",
            source=Component(
                "redis",
                "Reads streams as a consumer of a group (our own Redis Streams binding).",
                _source_config,
                _source,
                guarantees=guarantees.SOURCE,
                metrics=[lost_metric("redis", "Redis")],
                **_LIBRARY,
            ),
            sink=Component(
                "redis",
                "Adds each event to a stream as one entry (our own Redis Streams binding).",
                _sink_config,
                _sink,
                guarantees=guarantees.SINK,
                **_LIBRARY,
            ),
        )
    ]


@hookimpl
def gateway_connection_checks() -> list[Callable[[GatewayConfig, Settings], list[Probe]]]:
    return [_durability]


@hookimpl
def gateway_durable_names() -> list[DurableNames]:
    from gateway_core.contract.durable import DurableNames

    from . import durable

    return [DurableNames("redis", durable.names, durable.remove, look=durable.look)]


@hookimpl
def gateway_config_checks() -> list[Callable[[GatewayConfig], Iterable[ConfigFinding]]]:
    from .durable import consumers

    return [consumers]
