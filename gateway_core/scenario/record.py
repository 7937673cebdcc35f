"""What happened in a scenario: each event's way, in plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..errors import Refused
from ..event import Event, Message, text_of
from ..interfaces import Clause, Outcome

Kind = Literal["trigger", "bridge"]
Key = tuple[Kind, str]
"""A trigger or a bridge, by name."""


@dataclass(slots=True)
class Attempt:
    """One attempt to deliver. Times are seconds from the scenario's beginning."""

    number: int
    at_s: float
    event: Event  # as the sink was given it
    message: Message | None = None  # as it would have left
    outcome: Outcome | None = None
    ended_s: float | None = None


@dataclass(slots=True)
class Passage:
    """What one trigger or bridge made of one event."""

    key: Key
    event: Event
    clause: Clause
    attempts: list[Attempt] = field(default_factory=list)
    delivered_s: float | None = None
    letter: Event | None = None
    letter_s: float | None = None
    letter_to: str = ""
    returned: str = ""  # why a bridge's sender was told to try again
    reads: bool = False  # the subscriber reads the channel by itself

    @property
    def state(self) -> str:
        if not self.clause.matched:
            return "not_matched"
        if self.letter is not None:
            return "dead_lettered"
        if self.returned:
            return "returned"
        return "waiting" if self.delivered_s is None else "delivered"

    def waits(self) -> list[tuple[float, float]]:
        """The waits before the retries: (when the retry began, seconds since the attempt before it ended)."""
        pairs = zip(self.attempts, self.attempts[1:], strict=False)
        return [(b.at_s, b.at_s - a.ended_s) for a, b in pairs if a.ended_s is not None]


@dataclass(slots=True)
class Trail:
    """The way of one event from its arrival on; of an input that was refused, why."""

    to: str
    at_s: float
    event: Event | None = None
    refused: Refused | None = None
    reply_of: Passage | None = None
    passages: dict[Key, Passage] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return id_of(self.event) if self.event is not None else "?"


def id_of(event: Event) -> str:
    """An event's id, under any version's name for it."""
    value = event.attributes.get("id", event.attributes.get("eventID"))
    return "?" if value is None else text_of(value)
