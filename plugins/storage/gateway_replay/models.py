"""Schemas of the responses about replays and rewinds, for the OpenAPI document."""

from __future__ import annotations

from gateway_api.routes import Model


class EventCounts(Model):
    """How many events a replay or a rewind selects."""

    trigger: str
    count: int
    first: str | None
    """When the first of them was accepted (RFC 3339); null if there is none."""
    last: str | None
    """When the last one was accepted."""
    types: dict[str, int]
    """How many of each type; types beyond the first fifty are counted as `…`."""


class NotDelivered(Model):
    """An event that a replay could not deliver."""

    id: str
    """The event's id."""
    reason: str


class EventReplay(Model):
    """A replay of past events to one trigger (`tidegate replay`)."""

    id: str
    state: str
    """`counting`, `running`, `paused`, `done`, `cancelled` or `failed`."""
    detail: str
    """Why it failed, what it waits for, or what it lacks."""
    who: str
    """Who started it."""
    trigger: str
    broker: str
    """The trigger's."""
    to: str
    """It sends the events that were accepted from `from` to before `to` (RFC 3339)."""
    filters: list[str]
    """What the events must match beside the trigger's own filter."""
    rate: float
    """Events per second at most; 0 without a limit."""
    order: str
    """`key`, or empty for the trigger's own."""
    mark: bool
    """Whether its events have the attribute `tidegatereplay`."""
    to_sink: str
    """The URL that gets them in the trigger's place; empty for the trigger."""
    count: int
    """How many events it found."""
    first: str | None
    last: str | None
    types: dict[str, int]
    delivered: int
    given_up: int
    """How many are in the trigger's dead letter, or were not taken by `to_sink`."""
    unwanted: int
    """How many the trigger's filter no longer wanted."""
    gone: int
    """How many were not there any more."""
    left: int
    per_second: float
    """How many it settled in a second, while it ran."""
    seconds_left: int | None
    """How long it takes at this rate; null if that is not known."""
    started: str
    ended: str | None
    faults: list[NotDelivered]
    """The first that could not be delivered."""


class EventReplayList(Model):
    """All replays that the gateway remembers, oldest first."""

    items: list[EventReplay]
