"""The options."""

from __future__ import annotations

from gateway_core.contract.component import Config


class OtelConfig(Config):
    """OpenTelemetry metrics and traces. The plugin uses only the API: configure exporters with an SDK and its
    environment variables (`opentelemetry-instrument tidegate run`, `OTEL_EXPORTER_OTLP_ENDPOINT`). If several observers
    trace, only the first one does."""

    metrics: bool = True
    """Record metrics of events and deliveries."""

    traces: bool = True
    """Record spans, and continue traces: from HTTP headers, Kafka headers and the attributes `traceparent` and
    `tracestate`. These attributes are never changed; the gateway's own context goes in the headers `traceparent` and
    `tracestate` of HTTP requests and Kafka records. Without an SDK there are no traces."""
