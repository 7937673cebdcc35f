"""The `otel` observer, read through OpenTelemetry's SDK."""

from __future__ import annotations

from typing import Any

from gateway_otel.observer import OtelObserver
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from gateway_core.clock import SystemClock
from gateway_core.component import BuildContext, ObserverRef
from gateway_core.errors import Refused
from gateway_core.event import Event
from gateway_core.interfaces import DELIVERED, Observer, Outcome
from gateway_core.registry import Registry

EVENT = Event({"specversion": "1.0", "id": "1"})
RECEIVE = {"messaging.system": "tidegate", "messaging.operation.name": "receive", "messaging.operation.type": "receive"}
SEND = {"messaging.system": "tidegate", "messaging.operation.name": "send", "messaging.operation.type": "send"}
TO_T = {**SEND, "messaging.destination.subscription.name": "t"}


def recorded(*calls: Any) -> dict[str, list[tuple[dict[str, Any], Any]]]:
    """Metric -> (attributes, value or (count, sum)) after these calls on a fresh observer."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    observer = OtelObserver(provider)
    for name, *arguments in calls:
        getattr(observer, name)(*arguments)
    data = reader.get_metrics_data()
    provider.shutdown()
    found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
    if data is None:
        return found
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.data.data_points:
            value = point.value if hasattr(point, "value") else (point.count, point.sum)
            found.setdefault(metric.name, []).append((dict(point.attributes), value))
    return found


def test_accepted_and_refused_are_counted_by_broker() -> None:
    found = recorded(
        ("accepted", "default", [EVENT, EVENT]),
        ("accepted", "default", [EVENT]),
        ("refused", "default", Refused("no id", status=400)),
    )
    to = {**RECEIVE, "messaging.destination.name": "default"}
    assert found == {
        "messaging.client.consumed.messages": [(to, 3)],
        "tidegate.events.refused": [({**to, "error.type": "400"}, 1)],
    }


def test_attempts_are_counted_and_timed_by_outcome() -> None:
    found = recorded(
        ("attempted", "t", EVENT, DELIVERED, 0.5),
        ("attempted", "t", EVENT, DELIVERED, 0.25),
        ("attempted", "t", EVENT, Outcome(False, retry=True, code=503), 1.0),
        ("attempted", "t", EVENT, Outcome(False, retry=True, reason="connection refused by 10.1.2.3"), 2.0),
        ("attempted", "t", EVENT, Outcome(False, code=400), 4.0),
        ("dead_lettered", "t", EVENT),
    )
    delivered = {**TO_T, "tidegate.outcome": "delivered"}
    busy = {**TO_T, "tidegate.outcome": "retry", "error.type": "503"}
    silent = {**TO_T, "tidegate.outcome": "retry", "error.type": "_OTHER"}
    failed = {**TO_T, "tidegate.outcome": "failed", "error.type": "400"}
    assert found == {
        "messaging.client.sent.messages": [(delivered, 2), (busy, 1), (silent, 1), (failed, 1)],
        "messaging.client.operation.duration": [
            (delivered, (2, 0.75)),
            (busy, (1, 1.0)),
            (silent, (1, 2.0)),
            (failed, (1, 4.0)),
        ],
        "tidegate.events.delivered": [(TO_T, 2)],
        "tidegate.events.retried": [(TO_T, 2)],
        "tidegate.events.dead_lettered": [(TO_T, 1)],
    }


def test_it_comes_in_by_the_hook_and_works_without_an_sdk(tmp_path: Any) -> None:
    import gateway_otel.plugin

    registry = Registry()
    registry.add("otel", gateway_otel.plugin)
    context = BuildContext("observers[0]", tmp_path, SystemClock(), registry)
    observer = registry.build(ObserverRef("otel", {}), context)
    assert isinstance(observer, Observer)
    observer.accepted("default", [EVENT])
