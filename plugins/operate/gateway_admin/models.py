"""Schemas of the admin API's responses, for its OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from gateway_api.routes import Model
from pydantic import Field, create_model

from gateway_core.contract.record import Record, fields
from gateway_core.contract.status import BridgeStatus, BrokerStatus, TriggerStatus


class FaultDocument(Model):
    """One fault in a config."""

    message: str
    path: str
    """The path of keys to it."""
    file: str | None
    """The file with the fault; null if it is in the request's body."""
    line: int | None
    """Its line, from 1."""
    remedy: str
    """How to fix it; may be empty."""


class ProblemDocument(Model):
    """A problem (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    faults: list[FaultDocument] | None = None


class ConditionDocument(Model):
    """A condition, as in Kubernetes."""

    type: Literal["Ready", "AuthenticationEnabled", "SubjectsResolved", "EventPoliciesReady"]
    """Policies also have the conditions of Knative's EventPolicy, and brokers `EventPoliciesReady`."""
    status: Literal["True", "False", "Unknown"]
    reason: str
    """One word for programs."""
    message: str
    lastTransitionTime: str
    """When `status` last changed, to the second (RFC 3339)."""


class DefinedIn(Model):
    """Where a trigger is defined."""

    file: str
    line: int
    applied: bool
    """Whether it was applied to the running gateway and can be changed here."""


class Metadata(Model):
    name: str
    namespace: str | None = None
    """The namespace of its Knative manifest, if any."""
    generation: int
    """Counts the changes of `spec` since the gateway's start, from 1."""
    id: str
    """Its name in this API and in `tidegate status`: the name, prefixed with a namespace other than `default`."""
    origin: DefinedIn | None = None


class Address(Model):
    url: str


def _counts(name: str, kind: type[Record], *names: str) -> type[Model]:
    """The model of some numbers of a status."""
    meanings = {field.name: field.description for field in fields(kind) if field.name in names}
    numbers: dict[str, Any] = {name: (int, Field(description=meanings[name])) for name in names}
    return create_model(name, __base__=Model, **numbers)


_DELIVERIES = ("delivered", "attempts", "retried", "dead_lettered", "in_flight", "waiting", "lag")
BrokerCounts = _counts(
    "BrokerCounts",
    BrokerStatus,
    "accepted",
    "refused",
    "duplicates",
    "conflicts",
    "unrouted",
    "failed",
    "dead_lettered",
)
TriggerCounts = _counts("TriggerCounts", TriggerStatus, *_DELIVERIES)
BridgeCounts = _counts("BridgeCounts", BridgeStatus, *_DELIVERIES, "accepted", "unwanted", "refused", "failed")


class Observed(Model):
    observedGeneration: int
    """The running generation; less than `metadata.generation` during a reload or after one that failed."""
    conditions: list[ConditionDocument]
    deadLetterSinkUri: str | None


class AppliedPolicy(Model):
    """A policy of a broker (Knative: `AppliedEventPolicyRef`)."""

    apiVersion: str | None
    """That of its manifest; null if it has none."""
    name: str
    id: str
    """Its name in this API."""


class BrokerState(Observed):
    address: Address | None
    """Where the broker receives events: its first address."""
    addresses: list[Address]
    channel: str | None
    policies: list[AppliedPolicy]
    """The policies in force. Without any, the broker takes what its ingress lets in."""
    counts: BrokerCounts  # type: ignore[valid-type]


class TriggerState(Observed):
    subscriberUri: str | None
    paused: bool
    """Whether an operator paused it."""
    blocked: bool
    """Whether it waits because its dead letter can't be written."""
    lastError: str | None
    counts: TriggerCounts  # type: ignore[valid-type]


class BridgeState(Observed):
    sourceUri: str | None
    sinkUri: str | None
    blocked: bool
    """Whether it waits because its dead letter can't be written."""
    lastError: str | None
    counts: BridgeCounts  # type: ignore[valid-type]


class PolicyState(Model):
    observedGeneration: int
    """The running generation; less than `metadata.generation` during a reload or after one that failed."""
    conditions: list[ConditionDocument]
    brokers: list[str]
    """The brokers that it is about."""
    from_: list[str] = Field(alias="from")
    """The subjects that may send, with those of `from.ref` resolved."""


class Policy(Model):
    metadata: Metadata
    spec: dict[str, Any]
    """As in the config."""
    status: PolicyState


class Broker(Model):
    metadata: Metadata
    spec: dict[str, Any]
    """As in the config; secrets are `****`."""
    status: BrokerState


class Trigger(Model):
    metadata: Metadata
    spec: dict[str, Any]
    """As in the config; secrets are `****`."""
    status: TriggerState


class Bridge(Model):
    metadata: Metadata
    spec: dict[str, Any]
    """As in the config; secrets are `****`."""
    status: BridgeState


class BrokerList(Model):
    items: list[Broker]


class TriggerList(Model):
    items: list[Trigger]


class BridgeList(Model):
    items: list[Bridge]


class PolicyList(Model):
    items: list[Policy]


class AppliedTrigger(Model):
    name: str
    result: Literal["created", "changed", "unchanged"]


class ApplyResult(Model):
    triggers: list[AppliedTrigger]
    warnings: list[FaultDocument]


class ReloadResult(Model):
    generation: int
    """Counts the reloads that changed something, from 1."""
