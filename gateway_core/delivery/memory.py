"""What a subscription remembers of attempts that failed: enough to say what became of an event, and little to keep."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ..event import Event
from ..interfaces import Outcome
from ..oneline import one_line

MOST = 500
"""Failures that are remembered; older ones are forgotten."""


class Failure(NamedTuple):
    """One attempt that failed: when (Unix time), of which event, its number and the answer."""

    at_ns: int
    id: str | None
    source: str | None
    position: int
    attempt: int
    code: int | None
    reason: str


def id_of(event: Event) -> str | None:
    """The event's id; CloudEvents 0.1 calls it `eventID`."""
    attributes = event.attributes
    return attributes.get("id") or attributes.get("eventID")


class Memory:
    """The newest failures. Nothing is done for an attempt that succeeds."""

    __slots__ = ("_failures",)

    def __init__(self) -> None:
        self._failures: deque[Failure] = deque(maxlen=MOST)

    def failed(self, at_ns: int, event: Event, attempt: int, outcome: Outcome) -> None:
        """Remembers one."""
        source = event.attributes.get("source")
        self._failures.append(
            Failure(at_ns, id_of(event), source, event.position, attempt, outcome.code, one_line(outcome.reason))
        )

    def of(self, id: str, source: str | None) -> Iterator[Failure]:
        """The failures of an event, oldest first."""
        return (f for f in self._failures if f.id == id and source in (None, f.source))
