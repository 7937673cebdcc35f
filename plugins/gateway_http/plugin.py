"""What the plugin offers."""

from __future__ import annotations

from typing import Any

from gateway_core.component import BuildContext, Component, Transport
from gateway_core.hookspecs import hookimpl

from .config import HttpSinkConfig, HttpSourceConfig


def _source(options: HttpSourceConfig, context: BuildContext) -> Any:
    from .source import HttpSource

    return HttpSource(options, context)


def _sink(options: HttpSinkConfig, context: BuildContext) -> Any:
    from .sink import build_sink

    return build_sink(options, context)


@hookimpl
def gateway_transports() -> list[Transport]:
    return [
        Transport(
            "http",
            source=Component(
                "http",
                "Takes events by HTTP or HTTPS (CloudEvents HTTP binding), HTTP/1.1 or HTTP/2.",
                HttpSourceConfig,
                _source,
            ),
            sink=Component(
                "http",
                "Delivers each event with one HTTP POST; the answer's status decides (Knative data plane).",
                HttpSinkConfig,
                _sink,
                schemes=("http", "https"),
            ),
        )
    ]
