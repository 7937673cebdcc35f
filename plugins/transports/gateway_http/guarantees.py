"""What the plugin's source and sink promise (`tidegate plugins http`)."""

from __future__ import annotations

from gateway_core.contract.component import Guarantees, OwnMetric

SINK_METRICS = (
    OwnMetric("tidegate_http_batches_total", "counter", "Requests of sinks with `batch`, each with up to its events."),
    OwnMetric("tidegate_http_batches_split_total", "counter", "Batches that were rejected, and sent again in halves."),
)

SOURCE = Guarantees(
    delivery="at least once",
    acknowledged="202 once the event is stored, or in a bridge once the sink or the dead letter has it. A batch is "
    "accepted as a whole or not at all.",
    redelivery="The sender sends again after 429, 5xx or no response. After no response the event may be there twice, "
    "with the same `source` and `id`.",
    order="That of a sender which waits for each response, and that within a batch.",
    workers="all",
    back_pressure="503 with `Retry-After`; above three quarters of `max_unfinished_bytes` it reads incomplete requests "
    "more slowly.",
    binding="CloudEvents HTTP binding 1.0.2",
    modes=("binary", "structured", "batch"),
    credentials="TLS, client certificates, authenticators.",
)

SINK = Guarantees(
    delivery="at least once",
    acknowledged="Delivered with a 2xx response.",
    redelivery="After 404, 408, 409, 429, 5xx or no response, up to `retry` times. After no response the subscriber "
    "may have the event twice.",
    order="As `order` says: by key, by partition, or none.",
    workers="all",
    back_pressure="At most `max_in_flight` attempts; `Retry-After` is kept; a silent subscriber gets one attempt at a "
    "time.",
    binding="CloudEvents HTTP binding 1.0.2",
    modes=("binary", "structured", "batch"),
    credentials="TLS, client certificates, basic authentication, OAuth 2 client credentials, bearer tokens from files, "
    "signatures (HMAC, Standard Webhooks), header fields such as `Authorization`.",
)
