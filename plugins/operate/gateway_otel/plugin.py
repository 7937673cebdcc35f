"""The plugin's hooks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gateway_core.contract.component import BuildContext, Component
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway_core.contract.interfaces import Observer
    from gateway_core.contract.tracing import Tracer

    from .config import OtelConfig

log = logging.getLogger("tidegate.otel")


def build(config: OtelConfig, context: BuildContext) -> Observer:
    """An observer that records through the process's meter provider and tracer provider."""
    from opentelemetry.metrics import NoOpMeterProvider, get_meter_provider

    from .observer import OtelObserver

    observer = OtelObserver(get_meter_provider() if config.metrics else NoOpMeterProvider())
    if config.traces:
        observer.tracer = _tracer(context.owner)
    return observer


def _tracer(owner: str) -> Tracer | None:
    from opentelemetry.trace import NoOpTracerProvider, ProxyTracerProvider, get_tracer_provider

    provider = get_tracer_provider()
    if isinstance(provider, ProxyTracerProvider | NoOpTracerProvider):
        log.warning(
            "%s: no traces, because no OpenTelemetry SDK is configured: run "
            "`opentelemetry-instrument tidegate run …` with opentelemetry-distro and opentelemetry-exporter-otlp "
            "installed, or set `traces: false`",
            owner,
        )
        return None
    from .tracer import OtelTracer

    return OtelTracer(provider)


def _config() -> type[BaseModel]:
    from .config import OtelConfig

    return OtelConfig


@hookimpl
def gateway_observers() -> list[Component]:

    return [
        Component(
            "otel",
            "Records metrics and traces of events and deliveries through OpenTelemetry.",
            _config,
            build,
            extra="otel",
            requires=("opentelemetry",),
        )
    ]
