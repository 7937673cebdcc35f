"""One event on its way to one subscriber."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from ..clock import Timer
from ..event import Event
from ..interfaces import Outcome

if TYPE_CHECKING:
    from .subscription import Subscription


UNTIMED = -1.0


class Delivery:
    """The attempts for one event. It is itself the callback of each: no closure is made."""

    __slots__ = (
        "attempts", "awaited", "due_ns", "event", "first_ns", "lane", "outcome", "owner", "size", "started", "timer",
    )  # fmt: skip

    def __init__(self, owner: Subscription, event: Event) -> None:
        self.owner = owner
        self.event = event
        size = 256 + (len(event.data) if event.data else 0)
        for value in event.attributes.values():
            size += len(value) if type(value) is str else len(str(value))
        self.size = size
        self.attempts = 0
        self.awaited = False  # an attempt is under way, and has no outcome yet
        self.first_ns = 0
        self.due_ns = 0
        self.started = UNTIMED
        self.outcome: Outcome | None = None
        self.timer: Timer | None = None
        self.lane: Hashable = None

    def __call__(self, outcome: Outcome) -> None:
        if self.awaited:
            self.awaited = False
            self.owner.attempted(self, outcome)
        else:
            self.owner.unasked(self, outcome)


class _NoFeed:
    """Stands in until the channel has attached the subscription."""

    def ack(self, position: int) -> None: ...
    def resume(self) -> None: ...
    def lag(self) -> int:
        return 0


NO_FEED = _NoFeed()
