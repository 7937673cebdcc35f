"""What the intakes of brokers and bridges share: counts of what was not taken, and telling the observers."""

from __future__ import annotations

from .errors import Refused
from .event import Event
from .interfaces import Observer, Outcome


class Counted:
    """`refused` inputs, and `failed` attempts that a source made by itself."""

    def __init__(self, name: str, observers: tuple[Observer, ...]) -> None:
        self.name = name
        self.refused = self.failed = 0
        self._observers = observers

    def refuse(self, error: Refused) -> None:
        """See `Intake.refuse`."""
        self.refused += 1
        for observer in self._observers:
            observer.refused(self.name, error)

    def attempted(self, event: Event, outcome: Outcome, seconds: float) -> None:
        """See `Intake.attempted`."""
        self.failed += not outcome.delivered
        for observer in self._observers:
            observer.attempted(self.name, event, outcome, seconds)
