"""Checks a history against the promises of docs/discussion/delivery.md and ordering.md: one function for each sentence
that promises something (`promises/`)."""

from __future__ import annotations

from dataclasses import dataclass

from .facts import Facts
from .history import History
from .plan import Plan
from .promises import (  # noqa: F401 - they register
    accepting,
    again,
    attempting,
    failing,
    kafka,
    ordering,
    reporting,
    resuming,
    rewinding,
    securing,
    waiting,
)
from .promises.registry import PROMISES

MOST = 20
"""How many violations of one promise are reported."""

OF_WORKERS = frozenset((
    "every-accepted-event-is-settled", "a-batch-is-whole", "what-was-refused-does-not-appear",
    "only-those-who-want-it-get-it", "events-stay-as-they-are", "answers-are-those-of-the-table",
    "the-gateway-comes-to-rest", "nothing-breaks", "the-gateway-starts",
))  # fmt: skip
"""The promises that several workers are checked by: the others count, or order, what one process does."""

OF_REPLAYS = frozenset((
    "every-accepted-event-is-settled", "a-batch-is-whole", "what-was-refused-does-not-appear",
    "only-those-who-want-it-get-it", "answers-are-those-of-the-table", "the-gateway-comes-to-rest", "nothing-breaks",
    "the-gateway-starts", "a-replay-reaches-its-trigger-whole-and-no-other", "replayed-events-keep-their-order",
))  # fmt: skip
"""The promises that runs with replays are checked by: the others count attempts, or order them, without replays."""


OF_REWINDS = frozenset((
    "every-accepted-event-is-settled", "a-batch-is-whole", "what-was-refused-does-not-appear",
    "only-those-who-want-it-get-it", "answers-are-those-of-the-table", "the-gateway-comes-to-rest", "nothing-breaks",
    "the-gateway-starts", "after-a-rewind-everything-since-then-comes-again", "a-rewind-repeats-nothing-from-before",
    "what-a-rewind-repeats-is-in-order",
))  # fmt: skip
"""The promises that runs with rewinds are checked by: the others would take what is redelivered for a fault."""


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
    several = any(config.workers > 1 for config in plan.configs)
    for promise in PROMISES.values():
        if plan.rewinds:
            if promise.name not in OF_REWINDS:
                continue
        elif several and promise.name not in OF_WORKERS:
            continue
        if plan.replays and promise.name not in OF_REPLAYS:
            continue
        for count, (at, what) in enumerate(promise.check(facts)):
            if count == MOST:
                break
            found.append(Violation(promise.name, promise.sentence, at, what))
    return sorted(found, key=lambda v: v.at)
