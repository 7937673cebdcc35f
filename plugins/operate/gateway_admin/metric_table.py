"""The table of all metrics: their names, and their sources in the status. `docs/reference/metrics.md` is
generated from it. Names follow Prometheus's conventions (base units, `_total`); each metric also has its name in
OpenTelemetry's semantic conventions for messaging. Label values come only from the config and the code, never from
events, so their number is bounded.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gateway_core.contract.moments import time_ns_of
from gateway_core.contract.record import Record, fields
from gateway_core.contract.status import (
    BUSY_PER_S,
    ONE_OF,
    BridgeStatus,
    BrokerStatus,
    ChannelStatus,
    Durations,
    GatewayStatus,
    ObserverStatus,
    ProcessStatus,
    ReaderStatus,
    ReplaysStatus,
    SourceStatus,
    TriggerStatus,
)

Records = Iterator[tuple[tuple[str, ...], Any]]
"""Records of one kind, each with the values of its labels."""
Value = float | Mapping[str, float] | Durations | None


@dataclass(frozen=True, slots=True)
class MeasuredKind:
    """A kind of entity with metrics: its labels, its record, and where the records are in a status."""

    about: str
    labels: tuple[str, ...]
    kind: type[Record]
    found: Callable[[GatewayStatus], Records]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `source` reads its value from a record, by its field or with a function: a number, or None; for a
    histogram `Durations`; with `by`, an additional label, numbers by that label's value. `otel` is its name in
    OpenTelemetry's semantic conventions."""

    part: MeasuredKind
    name: str
    type: Literal["counter", "gauge", "histogram"]
    source: str | Callable[[Any], Value]
    about: str
    by: str = ""
    otel: str = ""

    @property
    def help(self) -> str:
        """What it means; without words of its own, what its field says."""
        return self.about or next(field.description for field in fields(self.part.kind) if field.name == self.source)

    @property
    def always(self) -> bool:
        """Whether it is there for an entry that has done nothing so far, however many there are."""
        return self.name.endswith("_ready")

    def read(self, record: Record) -> Value:
        """Its value in this record."""
        value: Value = getattr(record, self.source) if isinstance(self.source, str) else self.source(record)
        return value

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its labels."""
        return (*self.part.labels, self.by) if self.by else self.part.labels


# -- parts of the status -------------------------------------------------------------------------------------------


def _gateway(status: GatewayStatus) -> Records:
    yield (), status


def _build(status: GatewayStatus) -> Records:
    yield (status.version, platform.python_version()), status


def _brokers(status: GatewayStatus) -> Records:
    return (((broker.name,), broker) for broker in status.brokers)


def _channels(status: GatewayStatus) -> Records:
    return (((broker.name,), broker.channel) for broker in status.brokers)


def _groups(status: GatewayStatus) -> Records:
    for broker in status.brokers:
        for group, facts in broker.channel.details.get("groups", {}).items():
            yield (broker.name, group), SourceStatus.read(facts)


def _sources(status: GatewayStatus) -> Records:
    for broker in status.brokers:
        yield from (((broker.name, "", source.address), source) for source in broker.sources)
    for bridge in status.bridges:
        yield from ((("", bridge.name, source.address), source) for source in bridge.sources)


def _triggers(status: GatewayStatus) -> Records:
    return (((trigger.name, trigger.broker), trigger) for trigger in status.triggers)


def _readers(status: GatewayStatus) -> Records:
    for trigger in status.triggers:
        if trigger.reader is not None:
            yield (trigger.name, trigger.broker), trigger.reader


def _bridges(status: GatewayStatus) -> Records:
    return (((bridge.name,), bridge) for bridge in status.bridges)


def _observers(status: GatewayStatus) -> Records:
    return (((observer.name,), observer) for observer in status.observers)


def _replays(status: GatewayStatus) -> Records:
    return (((replays.name,), replays) for replays in status.replays)


def _processes(status: GatewayStatus) -> Records:
    return (((str(process.worker),), process) for process in status.processes)


BUILD = MeasuredKind("Build", ("version", "python"), GatewayStatus, _build)
GATEWAY = MeasuredKind("Gateway", (), GatewayStatus, _gateway)
BROKER = MeasuredKind("Brokers", ("broker",), BrokerStatus, _brokers)
CHANNEL = MeasuredKind("Channels of brokers", ("broker",), ChannelStatus, _channels)
GROUP = MeasuredKind("Consumer groups of triggers on a Kafka channel", ("broker", "group"), SourceStatus, _groups)
SOURCE = MeasuredKind("Sources that fetch their events (Kafka)", ("broker", "bridge", "source"), SourceStatus, _sources)
TRIGGER = MeasuredKind("Triggers", ("trigger", "broker"), TriggerStatus, _triggers)
READER = MeasuredKind(
    "Triggers whose subscriber reads the channel itself (Spark)", ("trigger", "broker"), ReaderStatus, _readers
)
BRIDGE = MeasuredKind("Bridges", ("bridge",), BridgeStatus, _bridges)
OBSERVER = MeasuredKind("Observers", ("observer",), ObserverStatus, _observers)
REPLAYS = MeasuredKind("Replays of past events and of dead letters", ("of",), ReplaysStatus, _replays)
PROCESS = MeasuredKind("Processes", ("worker",), ProcessStatus, _processes)
PARTS = (BUILD, GATEWAY, BROKER, CHANNEL, GROUP, SOURCE, TRIGGER, READER, BRIDGE, OBSERVER, REPLAYS, PROCESS)


OWNERS = {"brokers": "broker", "triggers": "trigger", "bridges": "bridge"}
"""The label of a component's own metric that names the entry it belongs to, by section."""
PLACE = "place"
"""The label that says where in that entry: ingress, channel, source, subscriber, sink, dead_letter."""


# -- the table -----------------------------------------------------------------------------------------------------

CONSUMED = "messaging.client.consumed.messages"
SENT = "messaging.client.sent.messages"
OPERATION = "messaging.client.operation.duration"
PROCESSED = "messaging.process.duration"


def _true(field: str) -> Callable[[Any], Value]:
    return lambda record: int(bool(getattr(record, field)))


def _fact(name: str) -> Callable[[Any], Value]:
    """One that only this kind of component reports."""
    return lambda record: record.details.get(name)


def _gauge(
    part: MeasuredKind, name: str, source: str | Callable[[Any], Value], help: str = "", *, by: str = ""
) -> Metric:
    return Metric(part, name, "gauge", source, help, by)


def _counter(
    part: MeasuredKind, name: str, source: str | Callable[[Any], Value], help: str = "", *, by: str = "", otel: str = ""
) -> Metric:
    return Metric(part, name, "counter", source, help, by, otel)


def _histogram(part: MeasuredKind, name: str, source: str, help: str, *, otel: str) -> Metric:
    return Metric(part, name, "histogram", source, help, otel=otel)


def _runs(reader: ReaderStatus) -> Value:
    return None if reader.state == "submitted" else int(reader.state == "running")


_STAGES = "by the stage at which they failed (delivery, decode, encode, filter, order)."
_SAMPLED = f" Above {BUSY_PER_S} per second, one in {ONE_OF} is timed."

METRICS = (
    _gauge(BUILD, "tidegate_build_info", lambda _: 1, "Always 1; its labels have the versions."),
    _gauge(GATEWAY, "tidegate_ready", _true("ready"), "1 while every broker of every worker is ready."),
    _gauge(GATEWAY, "tidegate_workers", lambda status: len(status.processes), "Running worker processes."),
    _gauge(
        GATEWAY,
        "tidegate_config_generation",
        lambda status: status.config.generation,
        "Number of the running config: 1 at the start, increased by each reload.",
    ),
    _gauge(
        GATEWAY,
        "tidegate_config_last_reload_successful",
        lambda status: int(not status.config.error),
        "0 while the latest config has errors and the previous one is still running.",
    ),
    # -- brokers
    _gauge(BROKER, "tidegate_broker_ready", _true("ready"), "1 while the broker accepts events."),
    _counter(BROKER, "tidegate_broker_events_accepted_total", "accepted", otel=CONSUMED),
    _counter(
        BROKER,
        "tidegate_broker_events_refused_total",
        "refused",
        "Malformed inputs (HTTP: 4xx responses).",
    ),
    _counter(BROKER, "tidegate_broker_events_duplicate_total", "duplicates"),
    _counter(BROKER, "tidegate_broker_duplicate_conflicts_total", "conflicts"),
    _gauge(BROKER, "tidegate_broker_deduplicate_window_seconds", "deduplicate_window_s"),
    _gauge(BROKER, "tidegate_broker_keys", "keys"),
    _counter(BROKER, "tidegate_broker_events_unrouted_total", "unrouted"),
    _counter(
        BROKER,
        "tidegate_broker_attempts_failed_total",
        "failed",
        "Failed attempts of sources that deliver events themselves, because their sender waits for the response (Fn).",
    ),
    _counter(
        BROKER,
        "tidegate_broker_events_dead_lettered_total",
        "dead_lettered_by_stage",
        "Events that sources wrote to the broker's dead letter, " + _STAGES,
        by="stage",
    ),
    _histogram(
        BROKER,
        "tidegate_broker_accept_duration_seconds",
        "accept",
        "Time from receiving an event (or a batch) until it is in stable storage." + _SAMPLED,
        otel=OPERATION,
    ),
    _gauge(CHANNEL, "tidegate_channel_writable", _true("writable"), "1 while events can be written."),
    _counter(
        CHANNEL,
        "tidegate_channel_events_failed_total",
        "failed",
        "Events that could not be stored; their sender got an error (HTTP: 503).",
    ),
    _gauge(CHANNEL, "tidegate_channel_events", "events"),
    _gauge(
        CHANNEL,
        "tidegate_channel_quarantined_events",
        _fact("quarantined"),
        "Events that the log can no longer read: see `tidegate log quarantine list`.",
    ),
    _gauge(CHANNEL, "tidegate_channel_size_bytes", "bytes"),
    _gauge(
        CHANNEL, "tidegate_channel_waiting_bytes", _fact("waiting_bytes"), "Size of the events waiting to be written."
    ),
    _gauge(GROUP, "tidegate_group_lag_events", "lag", "Records that the group has not processed yet."),
    _gauge(GROUP, "tidegate_group_failing", _true("error"), "1 while the group's consumer reports an error."),
    _gauge(SOURCE, "tidegate_source_lag_events", "lag"),
    _gauge(SOURCE, "tidegate_source_failing", _true("error"), "1 while the source reports an error."),
    # -- triggers
    _gauge(TRIGGER, "tidegate_trigger_ready", _true("ready"), "1 while events can be delivered to the subscriber."),
    _gauge(
        TRIGGER,
        "tidegate_trigger_paused",
        _true("paused"),
        "1 while nothing is sent because an operator paused it.",
    ),
    _gauge(
        TRIGGER,
        "tidegate_trigger_blocked",
        _true("blocked"),
        "1 while nothing is sent because the dead letter can't be written.",
    ),
    _counter(TRIGGER, "tidegate_trigger_events_delivered_total", "delivered"),
    _counter(TRIGGER, "tidegate_trigger_attempts_total", "attempts", otel=SENT),
    _counter(TRIGGER, "tidegate_trigger_retries_total", "retried"),
    _counter(
        TRIGGER,
        "tidegate_trigger_events_dead_lettered_total",
        "dead_lettered_by_stage",
        "Events written to the dead letter, " + _STAGES,
        by="stage",
    ),
    _counter(
        TRIGGER,
        "tidegate_trigger_filter_errors_total",
        "filter_errors",
        "Events on which the filter raised an error; they go to the dead letter.",
    ),
    _counter(
        TRIGGER,
        "tidegate_trigger_filter_unreadable_total",
        "unreadable",
        "Events whose data a filter could not look at, by reason; they do not match.",
        by="reason",
    ),
    _counter(
        TRIGGER,
        "tidegate_trigger_events_replayed_total",
        "replayed",
        "Events that replays sent again, by what came of them (delivered, given_up, unwanted).",
        by="result",
    ),
    _gauge(TRIGGER, "tidegate_trigger_events_in_flight", "in_flight"),
    _gauge(TRIGGER, "tidegate_trigger_events_waiting", "waiting"),
    _gauge(TRIGGER, "tidegate_trigger_events_delayed", "delayed"),
    _gauge(
        TRIGGER,
        "tidegate_trigger_delayed_due_timestamp_seconds",
        lambda status: None if status.delayed_until is None else time_ns_of(status.delayed_until) / 1e9,
        "When the delayed event is due that is due first (Unix time), also while it is delivered.",
    ),
    _gauge(
        TRIGGER,
        "tidegate_trigger_delayed_late_seconds",
        "delayed_late_s",
        "By how much that event is late; 0 if it is not due yet.",
    ),
    _gauge(
        TRIGGER, "tidegate_trigger_lag_events", "lag", "Events in the channel that the trigger has not processed yet."
    ),
    _histogram(
        TRIGGER,
        "tidegate_trigger_attempt_duration_seconds",
        "attempt",
        "Duration of an attempt." + _SAMPLED,
        otel=OPERATION,
    ),
    _histogram(
        TRIGGER,
        "tidegate_trigger_delivery_duration_seconds",
        "delivery",
        "Time from an event's arrival (channel kafka: from reading it) until the subscriber accepted it." + _SAMPLED,
        otel=PROCESSED,
    ),
    _gauge(
        READER, "tidegate_reader_running", _runs, "1 while the reader runs; missing if it runs elsewhere (submitted)."
    ),
    _gauge(READER, "tidegate_reader_failing", _true("error"), "1 while it reports an error."),
    _gauge(
        READER,
        "tidegate_reader_stalled_seconds",
        _fact("stalled_s"),
        "How long events have waited without a finished batch.",
    ),
    _gauge(READER, "tidegate_reader_lag_events", "lag"),
    _gauge(
        READER, "tidegate_reader_partition_lag_events", _fact("lags"), "The same by shard or partition.", by="partition"
    ),
    _counter(READER, "tidegate_reader_rows_total", "rows"),
    _counter(READER, "tidegate_reader_quarantined_total", "quarantined"),
    _counter(READER, "tidegate_reader_restarts_total", "restarts"),
    _gauge(READER, "tidegate_reader_batch_duration_seconds", _fact("batch_s"), "Duration of its last batch with rows."),
    _gauge(
        READER, "tidegate_reader_batch_part_seconds", _fact("parts"), "Duration of each part of that batch.", by="part"
    ),
    _gauge(READER, "tidegate_reader_rows_per_second", _fact("rows_per_s"), "The speed of that batch."),
    _gauge(READER, "tidegate_reader_state_rows", _fact("state_rows"), "Rows that it remembers to detect duplicates."),
    # -- bridges
    _gauge(BRIDGE, "tidegate_bridge_ready", _true("ready"), "1 while the bridge passes events on."),
    _gauge(
        BRIDGE,
        "tidegate_bridge_blocked",
        _true("blocked"),
        "1 while nothing is sent because the dead letter can't be written.",
    ),
    _counter(BRIDGE, "tidegate_bridge_events_accepted_total", "accepted", otel=CONSUMED),
    _counter(
        BRIDGE,
        "tidegate_bridge_events_refused_total",
        "refused",
        "Malformed inputs (HTTP: 4xx responses).",
    ),
    _counter(BRIDGE, "tidegate_bridge_events_unwanted_total", "unwanted"),
    _counter(BRIDGE, "tidegate_bridge_events_failed_total", "failed"),
    _counter(BRIDGE, "tidegate_bridge_events_delivered_total", "delivered", "Events that the sink accepted."),
    _counter(BRIDGE, "tidegate_bridge_attempts_total", "attempts", otel=SENT),
    _counter(BRIDGE, "tidegate_bridge_retries_total", "retried"),
    _counter(
        BRIDGE,
        "tidegate_bridge_events_dead_lettered_total",
        "dead_lettered_by_stage",
        "Events written to the dead letter, " + _STAGES,
        by="stage",
    ),
    _counter(
        BRIDGE,
        "tidegate_bridge_filter_errors_total",
        "filter_errors",
        "Events on which the filter raised an error; they are kept.",
    ),
    _counter(
        BRIDGE,
        "tidegate_bridge_filter_unreadable_total",
        "unreadable",
        "Events whose data a filter could not look at, by reason; they do not match.",
        by="reason",
    ),
    _gauge(BRIDGE, "tidegate_bridge_events_in_flight", "in_flight"),
    _gauge(BRIDGE, "tidegate_bridge_events_waiting", "waiting"),
    _histogram(
        BRIDGE,
        "tidegate_bridge_attempt_duration_seconds",
        "attempt",
        "Duration of an attempt." + _SAMPLED,
        otel=OPERATION,
    ),
    _histogram(
        BRIDGE,
        "tidegate_bridge_delivery_duration_seconds",
        "delivery",
        "Time from an event's arrival at the gateway until the sink accepted it." + _SAMPLED,
        otel=PROCESSED,
    ),
    _counter(OBSERVER, "tidegate_observer_errors_total", "errors"),
    # -- replays
    _gauge(REPLAYS, "tidegate_replays_active", "active"),
    _counter(REPLAYS, "tidegate_replays_failed_total", "failed"),
    # -- the standard metrics of Prometheus's clients
    _counter(PROCESS, "process_cpu_seconds_total", "cpu_s"),
    _gauge(PROCESS, "process_resident_memory_bytes", "resident_bytes"),
    _gauge(PROCESS, "process_virtual_memory_bytes", "virtual_bytes"),
    _gauge(PROCESS, "process_open_fds", "open_fds"),
    _gauge(PROCESS, "process_max_fds", "max_fds"),
    _gauge(PROCESS, "process_start_time_seconds", "started_s"),
    _gauge(
        PROCESS,
        "tidegate_connections",
        _fact("connections"),
        "Connections to all listeners, including TLS handshakes.",
    ),
    _counter(
        PROCESS,
        "tidegate_connections_cut_total",
        _fact("connections_cut"),
        "Connections closed while idle, or refused, because of a shortage of file descriptors.",
    ),
    _gauge(
        PROCESS,
        "tidegate_unfinished_bytes",
        _fact("unfinished_bytes"),
        "Memory for incomplete requests of all listeners (`limits.max_unfinished_bytes`).",
    ),
    _counter(
        PROCESS,
        "tidegate_unfinished_refused_total",
        _fact("unfinished_refused"),
        "Requests refused because incomplete requests needed too much memory, the slowest first.",
    ),
    _counter(
        PROCESS,
        "tidegate_values_left_out_total",
        _fact("values_left_out"),
        "Optional attributes of events, in any encoding, left out because their value was invalid.",
    ),
)
"""All metrics, in output order."""
