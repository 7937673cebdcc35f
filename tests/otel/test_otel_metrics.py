"""The `otel` observer, read through OpenTelemetry's SDK."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gateway_otel.plugin
import pytest
from gateway_otel.observer import OtelObserver
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, ObserverRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import DELIVERED, Observer, Outcome

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
            found.setdefault(metric.name, []).append((dict(point.attributes or {}), value))
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


def built(options: dict[str, Any], folder: Path) -> Any:
    registry = Registry()
    registry.add("otel", gateway_otel.plugin)
    return registry.build(ObserverRef("otel", options), BuildContext("observers[0]", folder, SystemClock(), registry))


def test_it_comes_in_by_the_hook_and_says_what_is_missing_without_an_sdk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    observer = built({}, tmp_path)
    assert isinstance(observer, Observer)
    observer.accepted("default", [EVENT])
    assert observer.tracer is None
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "observers[0]: no traces" in record.getMessage()
    assert "opentelemetry-instrument" in record.getMessage()


def test_traces_and_metrics_can_be_switched_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    observer = built({"traces": False, "metrics": False}, tmp_path)
    observer.accepted("default", [EVENT])
    assert observer.tracer is None
    assert caplog.records == []


@pytest.mark.usefixtures("processes")
def test_it_traces_with_the_processs_sdk(tmp_path: Path) -> None:
    """In a process of its own, as an SDK can be set up only once in each."""
    config = tmp_path / "tidegate.yaml"
    config.write_text("observers: [otel]\nbrokers: {default: {ingress: [http: {listen: '127.0.0.1:0'}]}}\n")
    done = subprocess.run([sys.executable, "-c", WITH_SDK, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"]


WITH_SDK = """
import sys
from pathlib import Path
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import set_tracer_provider
from gateway_core.runtime.build import Builder
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.configs import load
from gateway_core.config.registry import Registry
from gateway_core.contract.settings import Settings

set_tracer_provider(TracerProvider(shutdown_on_exit=False))
folder, registry = Path(sys.argv[1]), Registry.installed()
config = load([folder / "tidegate.yaml"], registry)
built = Builder(config, Settings(data_dir=folder), registry, SystemClock()).build()
print(built.observers[0].tracer is not None)
"""
