"""The status in Prometheus's text format, version 0.0.4. `metric_table` lists the metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from gateway_core.contract.component import OwnMetric
from gateway_core.contract.record import Record
from gateway_core.contract.status import Durations, GatewayStatus
from gateway_core.pipeline.histogram import BOUNDS_S

from .metric_table import METRICS, OWNERS, PLACE, Metric

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

Labels = list[tuple[str, str]]


def render(status: GatewayStatus, own: Iterable[OwnMetric] = ()) -> str:
    """The status of all workers as text, with the components' `own` metrics. Metrics without values are left out."""
    lines: list[str] = []
    for metric in METRICS:
        series: dict[str, float] = {}
        for values, record in metric.part.found(status):
            for name, number in _series(metric, list(zip(metric.part.labels, values, strict=True)), record):
                # two sources that read from the same address are one series
                series[name] = series.get(name, 0) + number
        lines += _lines(metric, series)
    for declared in own:
        lines += _lines(declared, dict(_own_series(declared, status.measured)))
    return "\n".join(lines) + "\n"


def _lines(metric: Metric | OwnMetric, series: Mapping[str, float]) -> Iterator[str]:
    if series:
        yield f"# HELP {metric.name} {_help(metric.help)}"
        yield f"# TYPE {metric.name} {metric.type}"
        yield from (f"{name} {number}" for name, number in series.items())


def _own_series(metric: OwnMetric, measured: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for section, label in OWNERS.items():
        for owner, places in measured.get(section, {}).items():
            for place, values in places.items():
                labels, value = [(label, owner), (PLACE, place)], values.get(metric.name)
                if isinstance(value, Mapping):
                    yield from ((_name(metric.name, [*labels, (metric.by, str(k))]), v) for k, v in value.items())
                elif value is not None:
                    yield _name(metric.name, labels), value


def _series(metric: Metric, labels: Labels, record: Record) -> Iterator[tuple[str, float]]:
    value = metric.read(record)
    if isinstance(value, Durations):
        yield from _histogram(metric.name, labels, value)
    elif isinstance(value, Mapping):
        for key, number in value.items():
            yield _name(metric.name, [*labels, (metric.by, key)]), number
    elif value is not None:
        yield _name(metric.name, labels), value


def _histogram(name: str, labels: Labels, value: Durations) -> Iterator[tuple[str, float]]:
    counts = list(accumulate(value.buckets))
    for bound, count in zip([*map(repr, BOUNDS_S), "+Inf"], counts, strict=True):
        yield _name(f"{name}_bucket", [*labels, ("le", bound)]), count
    yield _name(f"{name}_sum", labels), value.sum_s
    yield _name(f"{name}_count", labels), counts[-1]


def _name(name: str, labels: Labels) -> str:
    # an empty label is the same as none
    written = ",".join(f'{label}="{_escaped(value)}"' for label, value in labels if value)
    return f"{name}{{{written}}}" if written else name


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escaped(text: str) -> str:
    return _help(text).replace('"', '\\"')
