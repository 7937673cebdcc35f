"""What happened in a scenario: the record of each event, in plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message, text_of
from gateway_core.contract.interfaces import Clause, Outcome

Kind = Literal["trigger", "bridge"]
Key = tuple[Kind, str]
"""A trigger or a bridge, by name."""


@dataclass(slots=True)
class Attempt:
    """One delivery attempt. Times are seconds from the start of the scenario."""

    number: int
    at_s: float
    event: Event  # as passed to the sink
    message: Message | None = None  # as it would have been sent
    outcome: Outcome | None = None
    ended_s: float | None = None


@dataclass(slots=True)
class DeliveryRecord:
    """What one trigger or bridge did with one event."""

    key: Key
    event: Event
    clause: Clause
    attempts: list[Attempt] = field(default_factory=list)
    delivered_s: float | None = None
    dead_letter: Event | None = None
    dead_letter_s: float | None = None
    dead_letter_to: str = ""
    returned: str = ""  # why a bridge's sender must retry
    reads: bool = False  # the subscriber reads the channel itself

    @property
    def state(self) -> str:
        if not self.clause.matched:
            return "not_matched"
        if self.dead_letter is not None:
            return "dead_lettered"
        if self.returned:
            return "returned"
        return "waiting" if self.delivered_s is None else "delivered"

    def waits(self) -> list[tuple[float, float]]:
        """The delays before the retries: (when the retry began, seconds since the attempt before it ended)."""
        pairs = zip(self.attempts, self.attempts[1:], strict=False)
        return [(b.at_s, b.at_s - a.ended_s) for a, b in pairs if a.ended_s is not None]


@dataclass(slots=True)
class EventHistory:
    """The history of one event from its arrival on, or the error of a refused input."""

    to: str
    at_s: float
    event: Event | None = None
    refused: Refused | None = None
    reply_of: DeliveryRecord | None = None
    deliveries: dict[Key, DeliveryRecord] = field(default_factory=dict)
    replays: list[DeliveryRecord] = field(default_factory=list)
    """What replays of it did, in order."""
    repeated: bool = False
    """Whether the broker has it already, and did not store it again."""

    @property
    def id(self) -> str:
        return id_of(self.event) if self.event is not None else "?"


def id_of(event: Event) -> str:
    """An event's id, whatever its name in the event's version."""
    value = event.attributes.get("id", event.attributes.get("eventID"))
    return "?" if value is None else text_of(value)
