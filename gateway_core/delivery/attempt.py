"""One event on its way to one subscriber."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from ..contract.clock import Timer
from ..contract.event import Event
from ..contract.interfaces import Outcome

UNTIMED = -1.0


class AttemptOwner(Protocol):
    """The subscription, as its deliveries see it."""

    def attempted(self, delivery: Delivery, outcome: Outcome) -> None:
        """Takes the outcome of the attempt under way."""

    def unasked(self, delivery: Delivery, outcome: Outcome) -> None:
        """Takes an outcome when no attempt is under way."""


class Delivery:
    """The attempts for one event. It is its own callback, so no attempt needs a closure."""

    __slots__ = (
        "attempts", "awaited", "due_ns", "event", "first_ns", "order_key", "outcome", "owner", "size", "started",
        "timer",
    )  # fmt: skip

    def __init__(self, owner: AttemptOwner, event: Event) -> None:
        self.owner = owner
        self.event = event
        size = 256 + (len(event.data) if event.data else 0)
        for value in event.attributes.values():
            size += len(value) if type(value) is str else len(str(value))
        self.size = size
        self.attempts = 0
        self.awaited = False  # an attempt is under way
        self.first_ns = 0
        self.due_ns = 0
        self.started = UNTIMED
        self.outcome: Outcome | None = None
        self.timer: Timer | None = None
        self.order_key: Hashable = None

    def __call__(self, outcome: Outcome) -> None:
        if self.awaited:
            self.awaited = False
            self.owner.attempted(self, outcome)
        else:
            self.owner.unasked(self, outcome)


class _NoFeed:
    """The feed until the channel has attached the subscription."""

    def ack(self, position: int) -> None: ...
    def resume(self) -> None: ...
    def lag(self) -> int:
        return 0


NO_FEED = _NoFeed()
