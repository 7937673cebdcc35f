"""What components may be able to do besides what their kind must (`gateway_core.interfaces`). Whoever can is asked.

A component needs no base class: it has the method, or it has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from .event import Event, Message
from .outcome import Outcome


@runtime_checkable
class Watched(Protocol):
    """A source that has something to tell."""

    def info(self) -> dict[str, Any]:
        """For status: `address`, `error` (None while all is well), `lag` in events, and whatever else helps."""


@runtime_checkable
class Sharing(Protocol):
    """A source that says whether it may run in every worker of a gateway (`workers` more than one), each with a share
    of the events (a consumer group), or in one of them alone. One that says nothing may run in all if senders come to
    it, and in one if it fetches its events (`pulls`): two that fetch would each get all of them."""

    shares: bool


@runtime_checkable
class Previewing(Protocol):
    """A sink (or channel) that can say what it would send. `tidegate explain` and `tidegate test` ask it; it works
    before `start`, and reaches nothing outside the process."""

    def preview(self, event: Event) -> Message:
        """What one attempt would send: `url` says where to (of a record: `kafka://HOST:PORT/TOPIC`), `key` is the
        record key. Headers that hold a secret are `****`. Raises `Refused` where the event can't be written."""


@runtime_checkable
class Judging(Protocol):
    """A sink whose far side answers with a status, and that can say what an answer would mean."""

    def judge(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> Outcome:
        """The outcome of an attempt with this answer; header names are lower-case."""


@runtime_checkable
class Reading(Protocol):
    """A source that can say which events it reads from a message, without having started."""

    def read(self, message: Message) -> list[Event]:
        """The events of a message. Raises `Refused` as at the real ingress."""


@dataclass(frozen=True, slots=True)
class Found:
    """A step of a search: what was found, newest first, how many events were looked at, and where the next step goes on
    (None where everything was looked at; else JSON that `find` understands)."""

    events: Sequence[Event]
    searched: int
    rest: Any = None


@runtime_checkable
class Searchable(Protocol):
    """A channel in which events of the past can be found."""

    async def find(self, id: str, source: str | None, rest: Any = None, within_s: float = 0.5) -> Found:
        """Looks for the events with this id (and source), newest first, for about so many seconds or until there are
        some; `rest` is that of the step before."""


Standing = Literal["before", "unread", "pending", "passed"]
"""Where an event is for a subscription: older than it (where that is known), not read yet, offered and not dealt with,
or passed: dealt with, or dropped by the filter that it had then."""


@runtime_checkable
class Placed(Protocol):
    """A feed that knows where single events are."""

    def standing(self, position: int) -> Standing | None:
        """None where another worker knows, or the channel does not have the event."""


@runtime_checkable
class Joined(Protocol):
    """A channel in which a subscription that is attached while it is open gets its place a moment later."""

    async def joined(self, name: str) -> None:
        """Waits until it has, or for as long as a reload may take. What is appended then is not missed."""


@runtime_checkable
class Faulty(Protocol):
    """A subscription's feed that can say why it brings nothing."""

    @property
    def fault(self) -> str | None:
        """What is wrong and what to do; None while all is well."""
