"""The options."""

from __future__ import annotations

from gateway_core.component import Config


class OtelConfig(Config):
    """OpenTelemetry metrics and traces. Only its API is used: where they go is set up outside, with an SDK and its
    environment variables (`opentelemetry-instrument tidegate run`, `OTEL_EXPORTER_OTLP_ENDPOINT`). Of several observers
    that trace, the first does."""

    metrics: bool = True
    """Record metrics of events and deliveries."""

    traces: bool = True
    """Record spans, and continue traces: from HTTP headers, Kafka headers and the attributes `traceparent` and
    `tracestate`. These attributes are never changed; the gateway's own context goes in the headers `traceparent` and
    `tracestate` of HTTP requests and Kafka records. Without an SDK nothing is traced."""
