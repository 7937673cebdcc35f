"""The intake between sources and brokers or bridges, with its counters."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from ..contract.capabilities import runs_alone
from ..contract.component import SourceRef
from ..contract.errors import Refused
from ..contract.event import Event
from ..contract.interfaces import Admission, Intake, Observer, Outcome, Source
from ..contract.one_line import one_line
from ..contract.tracing import Origin, Tracer
from . import compose
from .steps import Transform

log = logging.getLogger("tidegate.intake")

TELL_S = 60.0
"""Refusals are logged at most this often, for each broker and bridge, with their number; in seconds."""


class SwitchableIntake:
    """The intake given to a source. It forwards to a broker or bridge, which a reload may replace. If it is
    `traced`, spans begin here. What the `admissions` refuse, or say is here already, is not forwarded."""

    def __init__(
        self,
        intake: Intake,
        traced: tuple[Tracer, Origin] | None = None,
        admissions: Sequence[Admission] = (),
        transforms: Sequence[Transform] = (),
    ) -> None:
        self._traced = traced
        self._transforms = transforms
        self.switch_to(intake, admissions)

    def switch_to(self, intake: Intake, admissions: Sequence[Admission] | None = None) -> None:
        """Forwards to this intake from now on, by these admissions or as before. The old one answers what it took."""
        if admissions is not None:
            self.admissions = admissions
        self.target = intake
        self.stores = intake.stores
        self.deduplicates = intake.deduplicates
        # bound here, so that a call costs no extra step
        self.attempted = intake.attempted
        self.undeliverable = intake.undeliverable
        self.withdraw = intake.withdraw
        self.accept, self.refuse = compose.entering(intake, self.admissions, self._transforms, self._traced)


@dataclass(slots=True)
class BoundSource:
    """A source with its place in the config and its intake. It is `open` from its start to its stop; in a worker that
    does not run it, it never is."""

    ref: SourceRef
    source: Source
    intake: SwitchableIntake
    owner: str = ""  # its path in the config, which a reload may change (`Owner`)
    fault: str = ""  # why one of its tasks ended
    open: bool = False

    @property
    def alone(self) -> bool:
        """Whether it runs in one worker only."""
        return runs_alone(self.source)


class Counted:
    """Counts `refused` inputs, and `failed` attempts that a source made itself."""

    admissions: Sequence[Admission] = ()

    def __init__(self, name: str, observers: tuple[Observer, ...]) -> None:
        self.name = name
        self.refused = self.failed = self._told = 0
        self._tell_at = 0.0
        self.faults: dict[str, str] = {}  # components that do not work any more, by their word in the config
        self._observers = observers

    def observe(self, observers: tuple[Observer, ...]) -> None:
        """Replaces the observers."""
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
