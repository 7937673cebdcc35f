"""The status of a gateway: what `tidegate status`, the metrics, the OpenAPI document and services read.

Each field says how the values of several workers become one (`gateway_core.contract.record`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from msgspec import field
from msgspec.structs import replace

from .component_errors import text_of_error
from .record import (
    ALL,
    ANY,
    BY_ADDRESS,
    BY_NAME,
    BY_PART,
    CURRENT,
    DETAILS,
    EARLIEST,
    EVERY,
    FIRST,
    GREATEST,
    IN_ORDER,
    ONE,
    TOTAL,
    TOTALS,
    TOTALS_BY_KEY,
    Record,
    Rule,
)

if TYPE_CHECKING:
    from .interfaces import Channel

WITH_READY = Rule(lambda mine, theirs: mine)
"""It belongs to `ready`: `Entry.merged` takes it from the entry that explains `ready` best."""

Details = Annotated[dict[str, Any], DETAILS("What only this kind of component reports.")]


BOUNDS_S = (
    *(0.0005, 0.001, 0.0025),  # what happens within one machine
    # OpenTelemetry's semantic conventions for durations in messaging and HTTP
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(30.0, 60.0, 300.0, 1800.0, 3600.0),  # what needs retries
)
"""The upper bounds of the buckets in seconds, each included (Prometheus's `le`); one more bucket counts longer ones."""

BUSY_PER_S = 500
ONE_OF = 8
"""Above `BUSY_PER_S` events a second, one event in `ONE_OF` is timed, else every one."""


class Durations(Record, frozen=True):
    """Durations in buckets (`BOUNDS_S`)."""

    buckets: Annotated[list[int], TOTALS("How many fell into each bucket; buckets do not overlap.")] = []
    sum_s: Annotated[float, TOTAL("Their sum in seconds.")] = 0.0


class SourceStatus(Record, frozen=True):
    """A source that reports its state, or that failed."""

    address: Annotated[str, FIRST("Where it gets its events.")] = ""
    error: Annotated[str | None, FIRST("Why it does not work.")] = None
    lag: Annotated[int | None, CURRENT("Records that the source has not processed yet; null if unknown.")] = None
    details: Details = {}


class ChannelStatus(Record, frozen=True):
    """A broker's channel. Numbers are null if the channel does not have them."""

    name: Annotated[str, FIRST("The kind of channel.")] = ""
    writable: Annotated[bool, EVERY("Whether events can be written.")] = True
    error: Annotated[str | None, FIRST("Why events can't be written.")] = None
    events: Annotated[int | None, CURRENT("Events in the log.")] = None
    bytes: Annotated[int | None, CURRENT("Size of the log's files.")] = None
    first: Annotated[int | None, FIRST("The position of the first event in the first worker's part.")] = None
    next: Annotated[int | None, FIRST("The position after its last event.")] = None
    unrouted: Annotated[int, TOTAL("Events that matched no trigger.")] = 0
    failed: Annotated[int, TOTAL("Events that could not be stored; their sender got an error.")] = 0
    details: Details = {}


class ReaderStatus(Record, frozen=True):
    """A subscriber that reads the channel itself (Spark)."""

    state: Annotated[str, FIRST("starting, running, stalled, restarting, stopped, submitted (runs elsewhere).")] = ""
    error: Annotated[str | None, FIRST("What is wrong.")] = None
    lag: Annotated[int | None, CURRENT("Events in the channel that it has not processed yet.")] = None
    rows: Annotated[int, TOTAL("Rows that it has read and processed.")] = 0
    quarantined: Annotated[int, TOTAL("Rows written to the quarantine table.")] = 0
    restarts: Annotated[int, TOTAL("How often it died and was restarted.")] = 0
    details: Details = {}


class Entry(Record, frozen=True):
    """A broker, trigger or bridge."""

    name: Annotated[str, FIRST("Its name in the config.")]
    ready: Annotated[bool, EVERY("Whether it works in every worker.")] = True
    reason: Annotated[str, WITH_READY("Why it does not work, or not fully; for people.")] = ""
    condition: Annotated[str, WITH_READY("The same as one word, for programs.")] = ""

    def merged(self, other: Self) -> Self:
        """Both as one, with the reason of one that is not ready, else of one that works in part, else the first."""
        found = super().merged(other)
        shown = min(self, other, key=lambda entry: (entry.ready, not entry.reason))
        return replace(found, reason=shown.reason, condition=shown.condition)


class BrokerStatus(Entry, frozen=True):
    """A broker."""

    ingress: Annotated[list[str], FIRST("The addresses of its sources.")] = []
    sources: Annotated[list[SourceStatus], BY_ADDRESS("Its sources that report their state, or failed.")] = []
    channel: Annotated[ChannelStatus, ONE("Its channel.")] = field(default_factory=ChannelStatus)
    accepted: Annotated[int, TOTAL("Events written to the channel, including replies.")] = 0
    refused: Annotated[int, TOTAL("Malformed inputs.")] = 0
    duplicates: Annotated[int, TOTAL("Accepted events that were not stored again (`deduplicate`).")] = 0
    conflicts: Annotated[int, TOTAL("Events with the key of an earlier one, but other content.")] = 0
    deduplicate_window_s: Annotated[
        float | None, GREATEST("For how many seconds it knows an event (`deduplicate`); null if it does not.")
    ] = None
    keys: Annotated[int | None, GREATEST("Keys of events that it knows (`deduplicate`); null if unknown.")] = None
    unrouted: Annotated[int, TOTAL("Events that matched no trigger.")] = 0
    failed: Annotated[int, TOTAL("Failed attempts of sources that deliver events themselves.")] = 0
    dead_lettered: Annotated[int, TOTAL("Events that sources wrote to the broker's dead letter.")] = 0
    dead_lettered_by_stage: Annotated[dict[str, int], TOTALS_BY_KEY("The same by stage.")] = {}
    accept: Annotated[Durations | None, ONE("From receiving an event until it is stored; null without metrics.")] = None


class DeliveryStatus(Entry, frozen=True):
    """What triggers and bridges have in common."""

    dead_letter: Annotated[str | None, FIRST("The address of its dead letter.")] = None
    delivered: Annotated[int, TOTAL("Events that the subscriber accepted.")] = 0
    attempts: Annotated[int, TOTAL("Attempts to deliver an event.")] = 0
    retried: Annotated[int, TOTAL("Attempts that failed and will be retried.")] = 0
    dead_lettered: Annotated[int, TOTAL("Events written to the dead letter.")] = 0
    dead_lettered_by_stage: Annotated[dict[str, int], TOTALS_BY_KEY("The same by stage.")] = {}
    filter_errors: Annotated[int, TOTAL("Events on which the filter raised an error.")] = 0
    unreadable: Annotated[
        dict[str, int], TOTALS_BY_KEY("Events whose data a filter could not look at, by reason; they do not match.")
    ] = {}
    in_flight: Annotated[int, CURRENT("Attempts in flight.")] = 0
    waiting: Annotated[int, CURRENT("Events in memory waiting for an attempt, a retry or the dead letter.")] = 0
    lag: Annotated[int | None, CURRENT("Events in the channel that it has not processed yet; null if unknown.")] = None
    blocked: Annotated[bool, ANY("Whether it waits because its dead letter can't be written.")] = False
    last_error: Annotated[str | None, FIRST("The last failure of an attempt.")] = None
    retried_until: Annotated[
        str | None,
        EARLIEST("Until when the event that has failed longest is retried (RFC 3339); null if none, or by number."),
    ] = None
    longest_wait_s: Annotated[
        float | None, GREATEST("The longest wait before that event's next retry, in seconds; null if there is none.")
    ] = None
    attempt: Annotated[Durations | None, ONE("Of attempts; null without metrics.")] = None
    delivery: Annotated[Durations | None, ONE("From an event's arrival to its delivery; null without metrics.")] = None


class TriggerStatus(DeliveryStatus, frozen=True, kw_only=True):
    """A trigger."""

    broker: Annotated[str, FIRST("Its broker.")]
    subscriber: Annotated[str | None, FIRST("The subscriber's address.")] = None
    paused: Annotated[bool, ANY("Whether an operator paused it.")] = False
    delayed: Annotated[int, CURRENT("Events that wait until they are due.")] = 0
    delayed_until: Annotated[
        str | None,
        EARLIEST(
            "When the delayed event is due that is due first (RFC 3339), also while it is delivered; null if none."
        ),
    ] = None
    delayed_late_s: Annotated[
        float | None, GREATEST("By how many seconds that event is late, 0 if it is not due yet; null if none waits.")
    ] = None
    replayed: Annotated[
        dict[str, int],
        TOTALS_BY_KEY("Events that replays sent again, by what came of them: delivered, given_up or unwanted."),
    ] = {}
    reader: Annotated[ReaderStatus | None, ONE("Its subscriber, if that reads the channel itself.")] = None


AnEntry = TypeVar("AnEntry", bound=Entry)


def with_own_reader(entry: AnEntry, merged: AnEntry) -> AnEntry:
    """Without the reader of a predecessor: the subscriber that it has now does not read the channel."""
    if isinstance(entry, TriggerStatus) and isinstance(merged, TriggerStatus) and entry.reader is None:
        return replace(merged, reader=None)
    return merged


class BridgeStatus(DeliveryStatus, frozen=True):
    """A bridge."""

    source: Annotated[str, FIRST("The address of its source.")] = ""
    sources: Annotated[list[SourceStatus], BY_ADDRESS("Its source, if that reports its state, or failed.")] = []
    sink: Annotated[str, FIRST("The address of its sink.")] = ""
    accepted: Annotated[
        int, TOTAL("Events that the source need not keep: delivered, unwanted or in the dead letter.")
    ] = 0
    unwanted: Annotated[int, TOTAL("Events that the filters rejected.")] = 0
    refused: Annotated[int, TOTAL("Malformed inputs.")] = 0
    failed: Annotated[int, TOTAL("Events returned to the source because the sink did not accept them.")] = 0


class ObserverStatus(Record, frozen=True):
    """An observer."""

    name: Annotated[str, FIRST("Its word in the config.")]
    errors: Annotated[int, TOTAL("Calls in which the observer raised an error.")] = 0
    last_error: Annotated[str | None, FIRST("The last one.")] = None


class ProcessStatus(Record, frozen=True):
    """A worker's process. Libraries add numbers of their own; null is what the system does not tell."""

    worker: Annotated[int, FIRST("The worker's number, from 0.")] = 0
    pid: Annotated[int, FIRST("Its process id.")] = 0
    cpu_s: Annotated[float, FIRST("CPU time, user and system.")] = 0.0
    started_s: Annotated[float, FIRST("Start time of the process, in Unix time.")] = 0.0
    max_fds: Annotated[int, FIRST("Maximum number of open file descriptors.")] = 0
    resident_bytes: Annotated[int | None, FIRST("Resident memory.")] = None
    virtual_bytes: Annotated[int | None, FIRST("Virtual memory.")] = None
    open_fds: Annotated[int | None, FIRST("Open file descriptors.")] = None
    details: Details = {}


class ReplaysStatus(Record, frozen=True):
    """Replays of one kind. They run in the first worker."""

    name: Annotated[str, FIRST("What they send: `events` of channels, or `dead_letters`.")]
    active: Annotated[int, CURRENT("Replays that run, or wait for others.")] = 0
    failed: Annotated[int, TOTAL("Replays that failed since the start of the gateway.")] = 0


class Unreported(Record, frozen=True):
    """A part that raised an error when it was asked for its share of the status. The rest of the status is complete."""

    part: Annotated[str, FIRST("Its name: `service NAME`, or a component by its place in the config.")]
    error: Annotated[str, FIRST("What it raised.")] = ""


class ConfigStatus(Record, frozen=True):
    """The config in force."""

    generation: Annotated[int, FIRST("Its number: 1 at the start, increased by each reload.")] = 0
    error: Annotated[str | None, FIRST("Why the latest config is not in force; null if it is.")] = None
    read_ns: Annotated[int, FIRST("When its files were read (Unix time).")] = 0


class GatewayStatus(Record, frozen=True):
    """The full status of a gateway, with the counts of all workers added up (`tidegate status --json`)."""

    version: Annotated[str, FIRST("The version of Tidegate.")]
    pid: Annotated[int, FIRST("The process id of the gateway.")] = 0
    uptime_s: Annotated[float, FIRST("Seconds since its start.")] = 0.0
    ready: Annotated[bool, EVERY("Whether every ingress takes events and every channel can be written.")] = True
    workers: Annotated[int, FIRST("How many workers the gateway should have.")] = 1
    data_dir: Annotated[str, FIRST("Where it keeps its state.")] = ""
    config: Annotated[ConfigStatus, ONE("Its config.")] = field(default_factory=ConfigStatus)
    brokers: Annotated[list[BrokerStatus], BY_NAME("All brokers.")] = []
    triggers: Annotated[list[TriggerStatus], BY_NAME("All triggers.")] = []
    bridges: Annotated[list[BridgeStatus], BY_NAME("All bridges.")] = []
    observers: Annotated[list[ObserverStatus], IN_ORDER("All observers.")] = []
    measured: Annotated[
        dict[str, Any], DETAILS("Metrics of components' own, by section, name and place; empty without metrics.")
    ] = {}
    processes: Annotated[list[ProcessStatus], ALL("The running workers; empty without metrics.")] = []
    replays: Annotated[list[ReplaysStatus], BY_NAME("Replays, by what they send.")] = []
    unreported: Annotated[list[Unreported], BY_PART("Parts that could not report their share of this status.")] = []

    def entries(self, section: str) -> Sequence[Entry]:
        """Its "brokers", "triggers" or "bridges"."""
        found: dict[str, Sequence[Entry]] = {
            "brokers": self.brokers,
            "triggers": self.triggers,
            "bridges": self.bridges,
        }
        return found[section]


def channel_state(name: str, channel: Channel) -> ChannelStatus:
    """`Channel.info`, of a channel of this kind."""
    try:
        return ChannelStatus.read({"name": name, **channel.info()})
    except Exception as e:
        return ChannelStatus(name, writable=False, error=f"the channel can't tell its state: {text_of_error(e)}")
