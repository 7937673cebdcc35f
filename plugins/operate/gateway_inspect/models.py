"""Schemas of the inspection routes' responses, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from gateway_api.routes import Model
from pydantic import BaseModel, ConfigDict


class Explanation(BaseModel):
    """What the gateway would do with an event (`tidegate explain --json`)."""

    model_config = ConfigDict(extra="allow")

    event: dict[str, Any]
    """Its id, source and type."""
    wanted: int
    """How many triggers and bridges match."""
    refused: dict[str, Any] | None
    """The error that the ingress would return, null if it accepts the event."""
    deliveries: list[dict[str, Any]]
    """One for each trigger and bridge: its filter, the message, the retries."""
    access: list[dict[str, Any]] = []
    """If the question has a sender: for each ingress whether it is let in, and what each entry of `allow` and each
    policy says ("allows", "other senders", "other events")."""
    duplicates: list[dict[str, Any]] = []
    """Of a running gateway: the brokers that had the event's key (`deduplicate`), and would not store it again; with
    the position of the first, and whether its content `differs`."""


class EventReport(BaseModel):
    """What happened to an event (`tidegate why --json`)."""

    model_config = ConfigDict(extra="allow")

    id: str
    source: str | None
    events: list[dict[str, Any]]
    """The events with this id, newest first: their position, and their delivery state for each trigger."""
    searched: int
    """How many events were searched."""
    unsearchable: list[str]
    """Brokers and bridges whose past events can't be found."""
    matches: list[dict[str, Any]] = []
    """With `prefix`: the events whose id begins so, instead of `events`; newest first."""
    duplicates: list[dict[str, Any]] = []
    """The duplicates with this id that were not stored (`deduplicate`), among the newest: when each came, and the
    position of the first with its key."""
    dead_letters_searched: bool
    """Whether all dead letters were searched."""
    rest: dict[str, Any] | None
    """Pass this as `rest` to continue the search; null if it is complete."""


class DelayedEvents(BaseModel):
    """What waits until it is due, for one trigger (`tidegate delayed list --json`)."""

    trigger: str
    count: int
    """How many events wait."""
    within: dict[str, int]
    """How many of them are due within a minute, an hour, a day, a week and a month."""
    events: list[dict[str, Any]]
    """Those that are due first: `due`, `id`, `source`, `type`, and `place` (shard/number)."""


class DelayedChange(BaseModel):
    """How many events a change found."""

    count: int


class TopologyNode(Model):
    id: str
    kind: Literal["source", "broker", "trigger", "bridge", "sink", "dead_letter"]
    title: str
    detail: list[str]
    """Addresses, channels, filters."""
    missing: bool
    """True for a broker that triggers refer to but that does not exist."""


class TopologyEdge(Model):
    start: str
    end: str
    kind: Literal["flow", "reply", "dead_letter"]


class TopologyDocument(Model):
    """The topology of a gateway."""

    nodes: list[TopologyNode]
    edges: list[TopologyEdge]
