"""The way from sources to brokers and bridges, and what these share: counts of what was not taken."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from .abilities import Sharing
from .component import SourceRef
from .errors import Refused
from .event import Event
from .interfaces import Intake, Observer, Outcome, Source
from .oneline import one_line
from .tracing import Accept, Origin, Tracer, traced_intake, traced_refusal

log = logging.getLogger("tidegate.intake")

TELL_S = 60.0
"""Refusals are logged at most this often, for each broker and bridge, with their number; in seconds."""


class Door:
    """What a source holds as its intake: it leads to a broker or bridge, which a reload may exchange for another. With
    a `tracer`, spans begin here."""

    def __init__(self, intake: Intake, tracer: Tracer | None = None, origin: Origin | None = None) -> None:
        self._tracer = tracer
        self._origin = origin
        self.lead_to(intake)

    def lead_to(self, intake: Intake) -> None:
        """From now on everything goes to this intake. What was accepted before is answered by the other."""
        self.intake = intake
        self.stores = intake.stores
        # its own attributes, so that a call costs no step more
        self.accept: Accept = intake.accept
        self.refuse: Callable[[Refused], None] = intake.refuse
        self.attempted = intake.attempted
        self.undeliverable = intake.undeliverable
        self.withdraw = intake.withdraw
        if self._tracer is not None and self._origin is not None:
            self.accept = traced_intake(self._tracer, self._origin, intake.accept)
            self.refuse = traced_refusal(self._tracer, self._origin, intake.refuse)


@dataclass(slots=True)
class Inlet:
    """A source where it is used: what the config says of it, and the door that it takes its events to. It is `open`
    from its start to its stop; in a worker that does not run it, never."""

    ref: SourceRef
    source: Source
    door: Door
    owner: str = ""  # its place in the config
    fault: str = ""  # a task of it has ended
    open: bool = False

    @property
    def alone(self) -> bool:
        """Whether it runs in one worker only."""
        source = self.source
        return not (source.shares if isinstance(source, Sharing) else not getattr(source, "pulls", False))


class Counted:
    """`refused` inputs, and `failed` attempts that a source made by itself."""

    def __init__(self, name: str, observers: tuple[Observer, ...]) -> None:
        self.name = name
        self.refused = self.failed = 0
        self._told = 0
        self._tell_at = 0.0
        self.faults: dict[str, str] = {}  # components that do not work any more, by their word in the config
        self._observers = observers

    def observe(self, observers: tuple[Observer, ...]) -> None:
        """Tells these from now on, and no others."""
        self._observers = observers

    def refuse(self, error: Refused) -> None:
        """See `Intake.refuse`."""
        self.refused += 1
        now = monotonic()
        if now >= self._tell_at:
            self._tell_at = now + TELL_S
            count, self._told = self.refused - self._told, self.refused
            log.warning("%s refused inputs: %d; the last: %s", self.name, count, one_line(error))
        for observer in self._observers:
            observer.refused(self.name, error)

    def attempted(self, event: Event, outcome: Outcome, seconds: float) -> None:
        """See `Intake.attempted`."""
        self.failed += not outcome.delivered
        for observer in self._observers:
            observer.attempted(self.name, event, outcome, seconds)
