"""The plugin's hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Command, Component, Transport
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.contract.config_extension import ConfigFinding
    from gateway_core.contract.config_model import GatewayConfig

    from .config import HttpSinkConfig, HttpSourceConfig


def _source(options: HttpSourceConfig, context: BuildContext) -> Any:
    from .source import HttpSource

    return HttpSource(options, context)


def _sink(options: HttpSinkConfig, context: BuildContext) -> Any:
    from .sink import build_sink

    return build_sink(options, context)


@hookimpl
def gateway_transports() -> list[Transport]:
    from gateway_access.counts import metrics

    from . import guarantees
    from .config import HttpSinkConfig, HttpSourceConfig

    return [
        Transport(
            "http",
            source=Component(
                "http",
                "Receives events over HTTP or HTTPS (CloudEvents HTTP binding), HTTP/1.1 or HTTP/2.",
                HttpSourceConfig,
                _source,
                guarantees=guarantees.SOURCE,
                metrics=metrics("http"),
            ),
            sink=Component(
                "http",
                "Delivers each event with one HTTP POST; the response status decides (Knative data plane).",
                HttpSinkConfig,
                _sink,
                schemes=("http", "https"),
                guarantees=guarantees.SINK,
                metrics=guarantees.SINK_METRICS,
            ),
        )
    ]


def _check(config: GatewayConfig) -> Iterable[ConfigFinding]:
    from .config_check import check

    return check(config)


@hookimpl
def gateway_config_checks() -> list[Callable[[GatewayConfig], Iterable[ConfigFinding]]]:
    return [_check]


def _send() -> Any:
    from .cli.app import send

    return send


@hookimpl
def gateway_commands() -> list[Command]:
    return [
        Command(
            "send",
            "Send events to an address. The exit code is 1 if any event was not accepted.",
            _send,
            panel="Try out",
        )
    ]
