"""The page of metrics, from their table."""

from __future__ import annotations

from textwrap import fill

from gateway_admin.metric_table import METRICS, PARTS, MeasuredKind, Metric
from gateway_admin.own_metrics import declared

from gateway_core.contract.configs import installed
from gateway_core.contract.status import BOUNDS_S, BUSY_PER_S, ONE_OF

_HEAD = (
    "`GET /metrics` of the admin API (`http://127.0.0.1:9080/metrics`), in Prometheus's text format 0.0.4. The setting "
    "`TIDEGATE_METRICS=off` turns it off. Numbers are those of all workers, those of the other workers up to half a "
    "second old. Counters begin at 0 with the gateway, and again with a broker, trigger or bridge that a reload "
    "restarts. What is not there (no Kafka, no Spark) has no lines; nor has, of more than 200 triggers, what "
    "never moved. The values of labels are names from the config, or "
    "those given here: never something of an event."
)
_NAMES = (
    "The last column is what OpenTelemetry's semantic conventions for messaging call the same; the observer `otel` "
    "uses those names. [How to monitor a gateway](../howto/monitoring.md) has queries, a dashboard and alerts."
)


def metrics() -> list[str]:
    """The lines of the page."""
    lines = ["# Metrics", "", *fill(_HEAD, 118).splitlines(), "", *fill(_NAMES, 118).splitlines()]
    for part in PARTS:
        lines += _part(part)
    lines += _own()
    bounds = ", ".join(f"{bound:g}" for bound in BOUNDS_S)
    text = (
        f"The buckets' upper bounds in seconds: {bounds}. While more than {BUSY_PER_S} events come in a second, one of "
        f"{ONE_OF} is timed, so `_count` is not the number of events; the counters have that."
    )
    lines += ["", "## Histograms", "", *fill(text, 118).splitlines()]
    return lines


def _part(part: MeasuredKind) -> list[str]:
    labels = f"Labels: {', '.join(f'`{label}`' for label in part.labels)}." if part.labels else "No labels."
    head = [
        "",
        f"## {part.about}",
        "",
        labels,
        "",
        "| metric | type | meaning | OpenTelemetry |",
        "| --- | --- | --- | --- |",
    ]
    return head + [_row(metric) for metric in METRICS if metric.part is part]


def _own() -> list[str]:
    """What components declare themselves."""
    offers = installed().offers()
    text = (
        "Labels: `broker`, `trigger` or `bridge`, and `place`: `ingress`, `channel`, `source`, `subscriber`, `sink` or "
        "`dead_letter`. A plugin's components may have [their own](../howto/write-a-plugin.md#metrics-of-your-own)."
    )
    lines = ["", "## Single components", "", *fill(text, 118).splitlines(), ""]
    lines += ["| metric | type | meaning |", "| --- | --- | --- |"]
    for metric in declared(offer.component for offer in offers):
        kind = metric.type + (f", by `{metric.by}`" if metric.by else "")
        lines.append(f"| `{metric.name}` | {kind} | {metric.help} |")
    return lines


def _row(metric: Metric) -> str:
    kind = metric.type + (f", by `{metric.by}`" if metric.by else "")
    return f"| `{metric.name}` | {kind} | {metric.help} | {f'`{metric.otel}`' if metric.otel else ''} |"
