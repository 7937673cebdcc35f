"""A replay: what it sends, who started it, and how far it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from gateway_core.contract.event import Event
from gateway_core.contract.one_line import one_line

from .dead_letters import DeadLetter, Query

_MOST_FAULTS = 20

Send = Callable[[], Awaitable[str]]
ReplaySeen = Callable[[Event, Send], Awaitable[str]]
"""Sends an event, waits until it was delivered, and returns "", or why it was not."""


@dataclass(slots=True)
class Replay:
    """A replay: what it sends, who started it, and how far it is. `state` is "waiting", "running", "done" (the counts
    say what was refused or skipped), "failed", "cancelled", or "stopped" with the gateway. `rate` is in events per
    second, 0 for no limit. `faults` are the first ids that failed, with the reason."""

    id: str
    who: str
    where: str
    query: Query
    rate: int
    state: str = "waiting"
    detail: str = ""
    total: int = 0
    accepted: int = 0
    removed: int = 0
    refused: int = 0
    skipped: int = 0
    started_ns: int = 0
    ended_ns: int = 0
    triggers: dict[str, int] = field(default_factory=dict)
    before: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each trigger what it had delivered and given up before."""
    brokers: list[str] = field(default_factory=list)
    edited: Event | None = None
    seen: ReplaySeen | None = None
    faults: list[tuple[str, str]] = field(default_factory=list)
    cancelling: bool = False
    all_triggers: bool = False
    """Whether the events go to their brokers, and so to every trigger that matches, instead of the one that failed."""

    @property
    def ended(self) -> bool:
        """Whether it will do nothing more."""
        return self.state not in ("waiting", "running")

    @property
    def handled(self) -> int:
        """How many of them it is done with."""
        return self.accepted + self.refused + self.skipped

    def fault(self, dead_letter: DeadLetter, reason: str) -> None:
        """Notes that one failed."""
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append((dead_letter.id, one_line(reason, 300)))


def selection(replay: Replay) -> dict[str, Any]:
    """Which dead letters a replay sends, for the audit log and the API."""
    query = replay.query
    chosen = {"broker": query.broker, "trigger": query.trigger, "reason": query.reason, "group": query.group}
    found: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    if query.redelivered is not None:
        found["redelivered"] = query.redelivered
    if query.ids:
        found["ids"] = sorted(query.ids)[:20]
    if replay.edited is not None:
        found["edited"] = True
    if replay.all_triggers:
        found["all_triggers"] = True
    return found
