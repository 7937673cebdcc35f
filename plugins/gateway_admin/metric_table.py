"""The table of all metrics: their names, and their sources in the status document. `docs/reference/metrics.md` is
generated from it. Names follow Prometheus's conventions (base units, `_total`); each metric also has its name in
OpenTelemetry's semantic conventions for messaging. Label values come only from the config and the code, never from
events, so their number is bounded.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gateway_core.pipeline.metering import BUSY_PER_S, ONE_OF

Entry = Mapping[str, Any]
"""A part of the status document."""
Found = Iterator[tuple[tuple[str, ...], Entry]]
"""Entries of one kind, each with the values of its labels."""
Value = float | Mapping[str, float] | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Part:
    """A kind of entity with metrics: its labels, and where its entries are in a status document."""

    about: str
    labels: tuple[str, ...]
    found: Callable[[Entry], Found]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `source` reads its value from an entry of the status document, by key or with a function: a number,
    or None; for a histogram `Histogram.status()`; with `by`, an additional label, numbers by that label's value. `otel`
    is its name in OpenTelemetry's semantic conventions."""

    part: Part
    name: str
    type: Literal["counter", "gauge", "histogram"]
    source: str | Callable[[Entry], Value]
    help: str
    by: str = ""
    otel: str = ""

    def read(self, entry: Entry) -> Value:
        """Its value in this entry."""
        if isinstance(self.source, str):
            value: Value = entry.get(self.source)
            return value
        return self.source(entry)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its labels."""
        return (*self.part.labels, self.by) if self.by else self.part.labels


# -- sections of the status document -----------------------------------------------------------------------


def _gateway(status: Entry) -> Found:
    yield (), status


def _build(status: Entry) -> Found:
    yield (status["version"], platform.python_version()), status


def _brokers(status: Entry) -> Found:
    return (((broker["name"],), broker) for broker in status["brokers"])


def _channels(status: Entry) -> Found:
    return (((broker["name"],), broker["channel"]) for broker in status["brokers"])


def _groups(status: Entry) -> Found:
    for broker in status["brokers"]:
        for group, info in broker["channel"].get("groups", {}).items():
            yield (broker["name"], group), info


def _sources(status: Entry) -> Found:
    for broker in status["brokers"]:
        yield from (((broker["name"], "", info["address"]), info) for info in broker["sources"])
    for bridge in status["bridges"]:
        yield from ((("", bridge["name"], info["address"]), info) for info in bridge["sources"])


def _triggers(status: Entry) -> Found:
    return (((trigger["name"], trigger["broker"]), trigger) for trigger in status["triggers"])


def _readers(status: Entry) -> Found:
    return ((labels, trigger["reader"]) for labels, trigger in _triggers(status) if trigger["reader"] is not None)


def _bridges(status: Entry) -> Found:
    return (((bridge["name"],), bridge) for bridge in status["bridges"])


def _observers(status: Entry) -> Found:
    return (((observer["name"],), observer) for observer in status.get("observers", ()))


def _processes(status: Entry) -> Found:
    return (((str(process["worker"]),), process) for process in status["processes"])


BUILD = Part("Build", ("version", "python"), _build)
GATEWAY = Part("Gateway", (), _gateway)
BROKER = Part("Brokers", ("broker",), _brokers)
CHANNEL = Part("Channels of brokers", ("broker",), _channels)
GROUP = Part("Consumer groups of triggers on a Kafka channel", ("broker", "group"), _groups)
SOURCE = Part("Sources that fetch their events (Kafka)", ("broker", "bridge", "source"), _sources)
TRIGGER = Part("Triggers", ("trigger", "broker"), _triggers)
READER = Part("Triggers whose subscriber reads the channel itself (Spark)", ("trigger", "broker"), _readers)
BRIDGE = Part("Bridges", ("bridge",), _bridges)
OBSERVER = Part("Observers", ("observer",), _observers)
PROCESS = Part("Processes", ("worker",), _processes)
PARTS = (BUILD, GATEWAY, BROKER, CHANNEL, GROUP, SOURCE, TRIGGER, READER, BRIDGE, OBSERVER, PROCESS)


# -- the table -----------------------------------------------------------------------------------------------------

CONSUMED = "messaging.client.consumed.messages"
SENT = "messaging.client.sent.messages"
OPERATION = "messaging.client.operation.duration"
PROCESSED = "messaging.process.duration"


def _true(key: str) -> Callable[[Entry], Value]:
    return lambda entry: int(bool(entry[key]))


def _gauge(part: Part, name: str, source: str | Callable[[Entry], Value], help: str) -> Metric:
    return Metric(part, name, "gauge", source, help)


def _counter(part: Part, name: str, source: str, help: str, *, by: str = "", otel: str = "") -> Metric:
    return Metric(part, name, "counter", source, help, by, otel)


def _by(part: Part, name: str, source: str, help: str, by: str) -> Metric:
    return Metric(part, name, "gauge", source, help, by)


def _runs(reader: Entry) -> Value:
    return None if reader["state"] == "submitted" else int(reader["state"] == "running")


def _histogram(part: Part, name: str, source: str, help: str, *, otel: str) -> Metric:
    return Metric(part, name, "histogram", source, help, otel=otel)


_STAGES = "by the stage at which they failed (delivery, decode, encode, filter, order)."
_SAMPLED = f" Above {BUSY_PER_S} per second, one in {ONE_OF} is timed."
_WAITING = "Events in memory waiting for an attempt, a retry or the dead letter."

METRICS = (
    _gauge(BUILD, "tidegate_build_info", lambda _: 1, "Always 1; its labels have the versions."),
    _gauge(GATEWAY, "tidegate_ready", _true("ready"), "1 while every broker of every worker is ready."),
    _gauge(GATEWAY, "tidegate_workers", lambda s: len(s["processes"]), "Running worker processes."),
    _gauge(
        GATEWAY,
        "tidegate_config_generation",
        lambda s: s["config"]["generation"],
        "Number of the running config: 1 at the start, increased by each reload.",
    ),
    _gauge(
        *(GATEWAY, "tidegate_config_last_reload_successful", lambda s: int(not s["config"]["error"])),
        "0 while the latest config has errors and the previous one is still running.",
    ),
    # -- brokers
    _gauge(BROKER, "tidegate_broker_ready", _true("ready"), "1 while the broker accepts events."),
    _counter(
        *(BROKER, "tidegate_broker_events_accepted_total", "accepted"),
        "Events written to the channel, including replies.",
        otel=CONSUMED,
    ),
    _counter(
        *(BROKER, "tidegate_broker_events_refused_total", "refused"),
        "Malformed inputs (HTTP: 4xx responses).",
    ),
    _counter(BROKER, "tidegate_broker_events_unrouted_total", "unrouted", "Events that matched no trigger."),
    _counter(
        *(BROKER, "tidegate_broker_attempts_failed_total", "failed"),
        "Failed attempts of sources that deliver events themselves, because their sender waits for the response (Fn).",
    ),
    _counter(
        *(BROKER, "tidegate_broker_events_dead_lettered_total", "dead_lettered_by_stage"),
        "Events that sources wrote to the broker's dead letter, " + _STAGES,
        by="stage",
    ),
    _histogram(
        *(BROKER, "tidegate_broker_accept_duration_seconds", "accept"),
        "Time from receiving an event (or a batch) until it is in stable storage." + _SAMPLED,
        otel=OPERATION,
    ),
    _gauge(CHANNEL, "tidegate_channel_writable", _true("writable"), "1 while events can be written."),
    _counter(
        *(CHANNEL, "tidegate_channel_events_failed_total", "failed"),
        "Events that could not be stored; their sender got an error (HTTP: 503).",
    ),
    _gauge(CHANNEL, "tidegate_channel_events", "events", "Events in the log."),
    _gauge(
        *(CHANNEL, "tidegate_channel_quarantined_events", "quarantined"),
        "Events that the log can no longer read: see `tidegate log quarantine list`.",
    ),
    _gauge(CHANNEL, "tidegate_channel_size_bytes", "bytes", "Size of the log's files."),
    _gauge(CHANNEL, "tidegate_channel_waiting_bytes", "waiting_bytes", "Size of the events waiting to be written."),
    _gauge(GROUP, "tidegate_group_lag_events", "lag", "Records that the group has not processed yet."),
    _gauge(GROUP, "tidegate_group_failing", _true("error"), "1 while the group's consumer reports an error."),
    _gauge(SOURCE, "tidegate_source_lag_events", "lag", "Records that the source has not processed yet."),
    _gauge(SOURCE, "tidegate_source_failing", _true("error"), "1 while the source reports an error."),
    # -- triggers
    _gauge(TRIGGER, "tidegate_trigger_ready", _true("ready"), "1 while events can be delivered to the subscriber."),
    _gauge(
        *(TRIGGER, "tidegate_trigger_paused", _true("paused")),
        "1 while nothing is sent because an operator paused it.",
    ),
    _gauge(
        *(TRIGGER, "tidegate_trigger_blocked", _true("blocked")),
        "1 while nothing is sent because the dead letter can't be written.",
    ),
    _counter(TRIGGER, "tidegate_trigger_events_delivered_total", "delivered", "Events that the subscriber accepted."),
    _counter(TRIGGER, "tidegate_trigger_attempts_total", "attempts", "Attempts to deliver an event.", otel=SENT),
    _counter(TRIGGER, "tidegate_trigger_retries_total", "retried", "Attempts that failed and will be retried."),
    _counter(
        *(TRIGGER, "tidegate_trigger_events_dead_lettered_total", "dead_lettered_by_stage"),
        "Events written to the dead letter, " + _STAGES,
        by="stage",
    ),
    _counter(
        *(TRIGGER, "tidegate_trigger_filter_errors_total", "filter_errors"),
        "Events on which the filter raised an error; they go to the dead letter.",
    ),
    _gauge(TRIGGER, "tidegate_trigger_events_in_flight", "in_flight", "Attempts in flight."),
    _gauge(TRIGGER, "tidegate_trigger_events_waiting", "waiting", _WAITING),
    _gauge(
        TRIGGER, "tidegate_trigger_lag_events", "lag", "Events in the channel that the trigger has not processed yet."
    ),
    _histogram(
        *(TRIGGER, "tidegate_trigger_attempt_duration_seconds", "attempt"),
        "Duration of an attempt." + _SAMPLED,
        otel=OPERATION,
    ),
    _histogram(
        *(TRIGGER, "tidegate_trigger_delivery_duration_seconds", "delivery"),
        "Time from an event's arrival (channel kafka: from reading it) until the subscriber accepted it." + _SAMPLED,
        otel=PROCESSED,
    ),
    _gauge(
        READER, "tidegate_reader_running", _runs, "1 while the reader runs; missing if it runs elsewhere (submitted)."
    ),
    _gauge(READER, "tidegate_reader_failing", lambda r: int(bool(r.get("error"))), "1 while it reports an error."),
    _gauge(
        READER, "tidegate_reader_stalled_seconds", "stalled_s", "How long events have waited without a finished batch."
    ),
    _gauge(READER, "tidegate_reader_lag_events", "lag", "Events in the channel that it has not processed yet."),
    _by(READER, "tidegate_reader_partition_lag_events", "lags", "The same by shard or partition.", "partition"),
    _counter(READER, "tidegate_reader_rows_total", "rows", "Rows that it has read and processed."),
    _counter(READER, "tidegate_reader_quarantined_total", "quarantined", "Rows written to the quarantine table."),
    _counter(READER, "tidegate_reader_restarts_total", "restarts", "How often it died and was restarted."),
    _gauge(READER, "tidegate_reader_batch_duration_seconds", "batch_s", "Duration of its last batch with rows."),
    _by(READER, "tidegate_reader_batch_part_seconds", "parts", "Duration of each part of that batch.", "part"),
    _gauge(READER, "tidegate_reader_rows_per_second", "rows_per_s", "The speed of that batch."),
    _gauge(READER, "tidegate_reader_state_rows", "state_rows", "Rows that it remembers to detect duplicates."),
    # -- bridges
    _gauge(BRIDGE, "tidegate_bridge_ready", _true("ready"), "1 while the bridge passes events on."),
    _gauge(
        *(BRIDGE, "tidegate_bridge_blocked", _true("blocked")),
        "1 while nothing is sent because the dead letter can't be written.",
    ),
    _counter(
        *(BRIDGE, "tidegate_bridge_events_accepted_total", "accepted"),
        "Events that the source need not keep: delivered, unwanted or in the dead letter.",
        otel=CONSUMED,
    ),
    _counter(
        *(BRIDGE, "tidegate_bridge_events_refused_total", "refused"),
        "Malformed inputs (HTTP: 4xx responses).",
    ),
    _counter(BRIDGE, "tidegate_bridge_events_unwanted_total", "unwanted", "Events that the filters rejected."),
    _counter(
        *(BRIDGE, "tidegate_bridge_events_failed_total", "failed"),
        "Events returned to the source because the sink did not accept them.",
    ),
    _counter(BRIDGE, "tidegate_bridge_events_delivered_total", "delivered", "Events that the sink accepted."),
    _counter(BRIDGE, "tidegate_bridge_attempts_total", "attempts", "Attempts to deliver an event.", otel=SENT),
    _counter(BRIDGE, "tidegate_bridge_retries_total", "retried", "Attempts that failed and will be retried."),
    _counter(
        *(BRIDGE, "tidegate_bridge_events_dead_lettered_total", "dead_lettered_by_stage"),
        "Events written to the dead letter, " + _STAGES,
        by="stage",
    ),
    _counter(
        *(BRIDGE, "tidegate_bridge_filter_errors_total", "filter_errors"),
        "Events on which the filter raised an error; they are kept.",
    ),
    _gauge(BRIDGE, "tidegate_bridge_events_in_flight", "in_flight", "Attempts in flight."),
    _gauge(BRIDGE, "tidegate_bridge_events_waiting", "waiting", _WAITING),
    _histogram(
        *(BRIDGE, "tidegate_bridge_attempt_duration_seconds", "attempt"),
        "Duration of an attempt." + _SAMPLED,
        otel=OPERATION,
    ),
    _histogram(
        *(BRIDGE, "tidegate_bridge_delivery_duration_seconds", "delivery"),
        "Time from an event's arrival at the gateway until the sink accepted it." + _SAMPLED,
        otel=PROCESSED,
    ),
    _counter(OBSERVER, "tidegate_observer_errors_total", "errors", "Calls in which the observer raised an error."),
    # -- the standard metrics of Prometheus's clients
    _counter(PROCESS, "process_cpu_seconds_total", "cpu_s", "CPU time, user and system."),
    _gauge(PROCESS, "process_resident_memory_bytes", "resident_bytes", "Resident memory."),
    _gauge(PROCESS, "process_virtual_memory_bytes", "virtual_bytes", "Virtual memory."),
    _gauge(PROCESS, "process_open_fds", "open_fds", "Open file descriptors."),
    _gauge(PROCESS, "process_max_fds", "max_fds", "Maximum number of open file descriptors."),
    _gauge(PROCESS, "process_start_time_seconds", "started_s", "Start time of the process, in Unix time."),
    _gauge(PROCESS, "tidegate_connections", "connections", "Connections to all listeners, including TLS handshakes."),
    _counter(
        *(PROCESS, "tidegate_connections_cut_total", "connections_cut"),
        "Connections closed while idle, or refused, because of a shortage of file descriptors.",
    ),
    _gauge(
        *(PROCESS, "tidegate_unfinished_bytes", "unfinished_bytes"),
        "Memory for incomplete requests of all listeners (`limits.max_unfinished_bytes`).",
    ),
    _counter(
        *(PROCESS, "tidegate_unfinished_refused_total", "unfinished_refused"),
        "Requests refused because incomplete requests needed too much memory, the slowest first.",
    ),
)
"""All metrics, in output order."""
