"""Schemas of the responses about dead letters, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from gateway_api.routes import Model


class RedeliveredSince(Model):
    """An event that was given up, and delivered after that."""

    at: str
    """When (RFC 3339)."""
    by: str | None
    """The id of the replay, or `rewind`; null if that is not known."""


class DeadLetterRow(Model):
    """The summary of a dead letter."""

    id: str
    store: str
    """The address of the dead letter that holds it."""
    broker: str | None
    """The broker of its trigger; null for a bridge."""
    trigger: str
    """The trigger or bridge that gave it up."""
    type: str
    source: str
    event_id: str
    attempts: int | None
    code: str | None
    """The last HTTP status, if the subscriber gave one."""
    stage: str
    """Where it failed: `decode`, `encode`, `filter`, `delivery` or `reply`."""
    reason: str
    first: str
    """When the first attempt began (RFC 3339)."""
    last: str
    """When the last attempt ended (RFC 3339)."""
    redelivered: RedeliveredSince | None
    """How its trigger has got the event since, by a replay of past events or a rewind; null if it has not."""


class GoneElsewhere(Model):
    """Events that a trigger gave up, and that are in no dead letter which the gateway can read. Its log knows of them
    as long as it has their events."""

    broker: str
    trigger: str
    to: str
    """The address of the dead letter."""
    count: int
    last: str
    """When the last of them was given up (RFC 3339)."""
    reason: str
    """Why that one was."""


class LeftBehind(Model):
    """Dead letters in a file that no component of the config reads: that of a broker of an earlier config, or one that
    a `path` named."""

    file: str
    """With several workers, the name that their files share."""
    count: int
    """How many of them were not imported."""
    command: str
    """What takes them over."""


class DeadLetterList(Model):
    """Dead letters (`tidegate dlq list`)."""

    items: list[DeadLetterRow]
    more: bool
    """Whether there are more: request them with a higher `skip`."""
    unknown: list[str]
    """Names in the query that the config doesn't have. Dead letters of an earlier config may still have them."""
    unreadable: list[str]
    """Dead letters that the gateway can't read: they go to a service or a topic, or are encrypted with a key that it
    does not have. The latter are complete if there are no more."""
    elsewhere: list[GoneElsewhere]
    """What was given up and is not among the items, nor on another page."""
    left_behind: list[LeftBehind]
    """What earlier configs have left, whatever the query. It is not among the items."""


class DeadLetterDetail(DeadLetterRow):
    """A dead letter in full (`tidegate dlq show`)."""

    dest: str
    """Where the event was sent."""
    answer: str | None
    """The start of the subscriber's response."""
    event: dict[str, Any]
    """The original event, in CloudEvents JSON."""


class ReplayFault(Model):
    """A dead letter whose event could not be sent."""

    id: str
    reason: str


class ReplayDocument(Model):
    """A replay of dead letters by the gateway. A dead letter is removed once its trigger has delivered its event, or
    its broker has taken it again."""

    id: str
    state: str
    """`waiting`, `running`, `done`, `failed`, `cancelled`, or `stopped` with the gateway."""
    detail: str
    """Why it failed, or what it waits for."""
    who: str
    """Who started it."""
    selection: dict[str, Any]
    """Which dead letters it sends."""
    rate: int
    """Events per second at most; 0 without a limit."""
    all_triggers: bool
    """Whether each event goes to all triggers of its broker that match; else to the one that gave it up alone."""
    total: int
    """How many it found."""
    accepted: int
    """How many events their triggers, or their brokers, have taken."""
    refused: int
    """How many events failed again, or were refused for good."""
    skipped: int
    """How many never were events."""
    left: int
    """How many remain."""
    faults: list[ReplayFault]
    """The first ones that failed."""


class ReplayList(Model):
    """The last replays since the gateway's start."""

    items: list[ReplayDocument]
