"""Whether events may come in: what an admission says of events that arrived together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .errors import Refused
from .event import Event


@dataclass(frozen=True, slots=True)
class AlreadyStored:
    """The gateway has these events already: they are not stored again, and their sender gets the answer of a success.
    `positions` are where they are, in the order of the events, as far as that is known: the events get them, as from a
    channel."""

    positions: Sequence[int] = ()


Verdict = Refused | AlreadyStored | None
"""None lets the events in. It is about all of them: events that arrived together are stored, refused or already there
together."""

Admission = Callable[[Sequence[Event]], Verdict]
"""Checks events that arrived together. Must be quick and not raise; if it raises, nothing is stored and the sender may
try again. Where there are several, each is asked until one refuses; a refusal counts for more than `AlreadyStored`."""
