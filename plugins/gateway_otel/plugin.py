"""What the plugin offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway_core.component import BuildContext, Component
from gateway_core.hookspecs import hookimpl

from .config import OtelConfig

if TYPE_CHECKING:
    from .observer import OtelObserver


def build(config: OtelConfig, context: BuildContext) -> OtelObserver:
    """An observer that records through the process's meter provider."""
    from opentelemetry.metrics import get_meter_provider

    from .observer import OtelObserver

    return OtelObserver(get_meter_provider())


@hookimpl
def gateway_observers() -> list[Component]:
    return [
        Component(
            "otel",
            "Records metrics of events and deliveries through OpenTelemetry.",
            OtelConfig,
            build,
            extra="otel",
            requires=("opentelemetry",),
        )
    ]
