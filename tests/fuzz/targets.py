"""The targets, and which of our modules guide their search."""

from __future__ import annotations

TARGETS = {
    "http": ("gateway_http", "gateway_serving"),
    "answer": ("gateway_http", "gateway_serving.content_coding"),
    "serving": ("gateway_serving",),
    "coding": ("gateway_serving.content_coding",),
    "cloudevents": ("gateway_cloudevents", "gateway_kafka.records", "gateway_kafka.non_cloudevent"),
    "cesql": ("gateway_cesql", "gateway_log.routing"),
    "config": ("gateway_core.config", "gateway_core.contract.config_", "gateway_core.contract.interpolation"),
    "manifest": ("gateway_knative",),
    "rows": ("gateway_log.rows", "gateway_log.reader"),
    "letters": ("gateway_deadletter", "gateway_cloudevents.event_json"),
    "records": ("gateway_kafka.records", "gateway_kafka.non_cloudevent", "gateway_transport.not_an_event"),
    "mqtt": ("gateway_mqtt.binding", "gateway_transport.not_an_event"),
    "amqp": ("gateway_rabbitmq.binding", "gateway_rabbitmq.wire", "gateway_transport.not_an_event"),
    "streams": ("gateway_redis.binding", "gateway_nats.binding", "gateway_transport.not_an_event"),
    "signature": ("gateway_auth.hmac", "gateway_auth.standard_webhooks", "gateway_auth.freshness"),
    "token": ("gateway_oidc.verifier", "gateway_oidc.keys"),
    "forms": (
        *("gateway_console.login", "gateway_console.event_search", "gateway_console.page", "gateway_console.timeline"),
        *("gateway_admin.guard", "gateway_api.routes", "gateway_admin.sessions", "gateway_api.tokens"),
    ),
}
"""By name, the prefixes of modules whose coverage counts. `NAME_target.py` has the target itself: `check` raises where
something does not hold, `SEEDS` are inputs to begin with, `WORDS` the dictionary."""
