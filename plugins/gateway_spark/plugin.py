"""What the plugin offers."""

from __future__ import annotations

from typing import Any

from gateway_core.component import BuildContext, Component, Transport
from gateway_core.hookspecs import hookimpl

from .config import SparkSinkConfig


def _build(config: SparkSinkConfig, context: BuildContext) -> Any:
    from .sink import build

    return build(config, context)


@hookimpl
def gateway_transports() -> list[Transport]:
    sink = Component(
        "spark",
        "Streams events into a Spark table, each exactly once.",
        SparkSinkConfig,
        _build,
        extra="spark",
        requires=("pyspark", "pyarrow"),
    )
    return [Transport("spark", sink=sink)]
