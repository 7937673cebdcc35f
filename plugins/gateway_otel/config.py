"""The options."""

from __future__ import annotations

from gateway_core.component import Config


class OtelConfig(Config):
    """OpenTelemetry metrics. Only its API is used: where they go is set up outside, with an SDK and its environment
    variables (`opentelemetry-instrument tidegate run`, `OTEL_EXPORTER_OTLP_ENDPOINT`)."""
