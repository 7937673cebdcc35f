"""What the admin API's answers look like: the schemas of its OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A document; its attributes' docstrings become descriptions."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class FaultDocument(Model):
    """One thing wrong in a config."""

    message: str
    path: str
    """The path of keys that leads to it."""
    file: str | None
    """The file that it stands in; null where that is the request's body."""
    line: int | None
    """Its line, from 1."""
    remedy: str
    """What to do; may be empty."""


class ProblemDocument(Model):
    """A problem (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    faults: list[FaultDocument] | None = None


class ConditionDocument(Model):
    """A condition, as in Kubernetes."""

    type: Literal["Ready"]
    status: Literal["True", "False", "Unknown"]
    reason: str
    """One word for programs."""
    message: str
    lastTransitionTime: str
    """When `status` changed last, to the second (RFC 3339)."""


class Origin(Model):
    """Where a trigger is defined."""

    file: str
    line: int
    applied: bool
    """Whether it was applied while the gateway ran, and may be changed here."""


class Metadata(Model):
    name: str
    namespace: str | None = None
    """That of the Knative manifest which it came from, if any."""
    generation: int
    """Counts the changes of `spec` since the gateway's start, from 1."""
    id: str
    """What it is called in this API and in `tidegate status`: the name, with a namespace other than `default` in
    front."""
    origin: Origin | None = None


class Address(Model):
    url: str


class BrokerCounts(Model):
    accepted: int
    refused: int
    unrouted: int
    failed: int
    dead_lettered: int


class TriggerCounts(Model):
    delivered: int
    attempts: int
    retried: int
    dead_lettered: int
    in_flight: int
    waiting: int
    lag: int


class BridgeCounts(TriggerCounts):
    accepted: int
    unwanted: int
    refused: int
    failed: int


class Observed(Model):
    observedGeneration: int
    """The generation that runs; less than `metadata.generation` during a reload, or where that failed."""
    conditions: list[ConditionDocument]
    deadLetterSinkUri: str | None


class BrokerState(Observed):
    address: Address | None
    """Where the broker takes events: its first address."""
    addresses: list[Address]
    channel: str | None
    counts: BrokerCounts


class TriggerState(Observed):
    subscriberUri: str | None
    paused: bool
    """Whether an operator paused it."""
    lastError: str | None
    counts: TriggerCounts


class BridgeState(Observed):
    sourceUri: str | None
    sinkUri: str | None
    lastError: str | None
    counts: BridgeCounts


class Broker(Model):
    metadata: Metadata
    spec: dict[str, Any]
    """As the config has it, in our own vocabulary; secrets are `****`."""
    status: BrokerState


class Trigger(Model):
    metadata: Metadata
    spec: dict[str, Any]
    """As the config has it, in our own vocabulary; secrets are `****`."""
    status: TriggerState


class Bridge(Model):
    metadata: Metadata
    spec: dict[str, Any]
    """As the config has it, in our own vocabulary; secrets are `****`."""
    status: BridgeState


class BrokerList(Model):
    items: list[Broker]


class TriggerList(Model):
    items: list[Trigger]


class BridgeList(Model):
    items: list[Bridge]


class AppliedTrigger(Model):
    name: str
    result: Literal["created", "changed", "unchanged"]


class ApplyResult(Model):
    triggers: list[AppliedTrigger]
    warnings: list[FaultDocument]


class ReloadResult(Model):
    generation: int
    """Counts the reloads that changed something, from 1."""


class Explanation(BaseModel):
    """What the gateway would do with an event (`tidegate explain --json`)."""

    model_config = ConfigDict(extra="allow")

    event: dict[str, Any]
    """Its id, source and type."""
    wanted: int
    """How many triggers and bridges want it."""
    refused: dict[str, Any] | None
    """What the ingress would answer, null where it takes the event."""
    ways: list[dict[str, Any]]
    """One for each trigger and bridge: its filter, the message, the retries."""


class Whereabouts(BaseModel):
    """What became of an event (`tidegate why --json`)."""

    model_config = ConfigDict(extra="allow")

    id: str
    source: str | None
    events: list[dict[str, Any]]
    """The events with this id, newest first: their place, and their way to each trigger."""
    searched: int
    """How many events were looked at."""
    unsearchable: list[str]
    """Brokers and bridges whose past events can't be found."""
    letters_searched: bool
    """Whether all dead letters were looked at."""
    rest: dict[str, Any] | None
    """What to ask with to go on with the search; null where it is at its end."""


class TopologyNode(Model):
    id: str
    kind: Literal["source", "broker", "trigger", "bridge", "sink", "dead_letter"]
    title: str
    detail: list[str]
    """Addresses, channels, filters."""
    missing: bool
    """True for a broker that triggers name and that does not exist."""


class TopologyEdge(Model):
    start: str
    end: str
    kind: Literal["flow", "reply", "dead_letter"]


class TopologyDocument(Model):
    """What is connected to what."""

    nodes: list[TopologyNode]
    edges: list[TopologyEdge]


class Live(Model):
    live: bool


class Ready(Model):
    ready: bool


class Startup(Model):
    startup: bool


class Status(BaseModel):
    """All that a gateway tells of itself, counts of all workers together (`tidegate status --json`)."""

    model_config = ConfigDict(extra="allow")

    version: str
    pid: int
    uptime_s: float
    ready: bool
    workers: int
    data_dir: str
    config: dict[str, Any]
    brokers: list[dict[str, Any]]
    triggers: list[dict[str, Any]]
    bridges: list[dict[str, Any]]
    observers: list[dict[str, Any]]
    """Each with the `errors` that it raised, and the last of them."""
