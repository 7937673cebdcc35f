"""A bounded history of failed attempts, so that `tidegate why` can say what happened to an event."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ..contract.event import Event
from ..contract.interfaces import Outcome
from ..contract.one_line import one_line

MOST = 500
"""How many failures are kept; older ones are dropped."""


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
    """The newest failures. A successful attempt costs nothing."""

    __slots__ = ("_failures",)

    def __init__(self) -> None:
        self._failures: deque[Failure] = deque(maxlen=MOST)

    def failed(self, at_ns: int, event: Event, attempt: int, outcome: Outcome) -> None:
        """Adds a failure."""
        source = event.attributes.get("source")
        self._failures.append(
            Failure(at_ns, id_of(event), source, event.position, attempt, outcome.code, one_line(outcome.reason))
        )

    def of(self, id: str, source: str | None) -> Iterator[Failure]:
        """The failures of an event, oldest first."""
        return (f for f in self._failures if f.id == id and source in (None, f.source))
