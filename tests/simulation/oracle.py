"""Judges a history by the promises of docs/discussion/delivery.md and ordering.md: one function for each sentence that
promises something (`promises/`)."""

from __future__ import annotations

from dataclasses import dataclass

from .facts import Facts
from .history import History
from .plan import Plan
from .promises import (  # noqa: F401 - they register
    accepting,
    attempting,
    failing,
    kafka,
    ordering,
    reporting,
    resuming,
    securing,
    waiting,
)
from .promises.registry import PROMISES

MOST = 20
"""How many violations of one promise are reported."""


@dataclass(frozen=True)
class Violation:
    """A broken promise: its name, its sentence, when it was broken in simulated time, and how."""

    promise: str
    sentence: str
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.at:.3f} s: {self.what} [{self.promise}]"


def violations(plan: Plan, history: History) -> list[Violation]:
    """All that the run broke, in order of time."""
    facts = Facts(plan, history)
    found = []
    for promise in PROMISES.values():
        for count, (at, what) in enumerate(promise.check(facts)):
            if count == MOST:
                break
            found.append(Violation(promise.name, promise.sentence, at, what))
    return sorted(found, key=lambda v: v.at)
