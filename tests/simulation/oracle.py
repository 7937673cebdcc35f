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
    later,
    once,
    ordering,
    reporting,
    resuming,
    rewinding,
    scheduling,
    securing,
    together,
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

OF_ONCE = frozenset((
    "every-accepted-event-is-settled", "what-was-refused-does-not-appear", "events-stay-as-they-are",
    "answers-are-those-of-the-table", "the-gateway-comes-to-rest", "nothing-breaks", "the-gateway-starts",
    "a-key-is-once-in-the-log", "what-is-accepted-is-in-the-log", "a-duplicate-names-the-first",
))  # fmt: skip
"""The promises that runs with `deduplicate` are checked by: the others count, or order, what is sent once."""

OF_REPLAYS = frozenset((
    "every-accepted-event-is-settled", "a-batch-is-whole", "what-was-refused-does-not-appear",
    "only-those-who-want-it-get-it", "answers-are-those-of-the-table", "the-gateway-comes-to-rest", "nothing-breaks",
    "the-gateway-starts", "a-replay-reaches-its-trigger-whole-and-no-other", "replayed-events-keep-their-order",
))  # fmt: skip
"""The promises that runs with replays are checked by: the others count attempts, or order them, without replays."""

OF_TOGETHER = frozenset((
    "every-accepted-event-is-settled", "a-batch-is-whole", "what-was-refused-does-not-appear",
    "only-those-who-want-it-get-it", "events-stay-as-they-are", "answers-are-those-of-the-table",
    "the-gateway-comes-to-rest", "nothing-breaks", "the-gateway-starts", "what-is-delivered-does-not-come-again",
    "nothing-overtakes", "one-of-a-key-at-a-time", "no-more-in-flight-than-allowed",
    "a-trigger-that-holds-gives-up-no-event-for-lack-of-an-answer", "only-the-event-that-is-rejected-is-given-up",
    "an-event-is-given-up-for-what-was-said-of-it", "a-batch-has-no-more-events-than-allowed",
))  # fmt: skip
"""The promises that runs with batches or held events are checked by: the others count and time single attempts."""


OF_REWINDS = frozenset((
    "every-accepted-event-is-settled", "a-batch-is-whole", "what-was-refused-does-not-appear",
    "only-those-who-want-it-get-it", "answers-are-those-of-the-table", "the-gateway-comes-to-rest", "nothing-breaks",
    "the-gateway-starts", "after-a-rewind-everything-since-then-comes-again", "a-rewind-repeats-nothing-from-before",
    "what-a-rewind-repeats-is-in-order",
))  # fmt: skip
"""The promises that runs with rewinds are checked by: the others would take what is redelivered for a fault."""

OF_LATER = frozenset((
    "only-those-who-want-it-get-it", "events-stay-as-they-are", "answers-are-those-of-the-table",
    "the-gateway-comes-to-rest", "nothing-breaks", "the-gateway-starts",
    "a-delayed-event-is-never-early", "a-delayed-event-is-not-late", "a-delayed-event-is-delivered-or-waits",
    "retention-removes-no-event-that-waits", "what-waits-is-counted", "what-is-cancelled-does-not-come",
    "each-planned-run-is-made", "all-missed-runs-are-made", "the-last-missed-run-is-made",
    "skipped-runs-are-not-made", "a-run-is-never-early", "each-run-is-stored-once",
    "a-run-is-repeated-only-after-a-crash",
))  # fmt: skip
"""The promises that runs with delays and schedules are checked by: the others expect events at once."""
LATER_ONLY = frozenset(
    name for name, one in PROMISES.items() if one.page in ("howto/delay-events", "howto/schedule-events")
)
"""Those that no other runs are checked by."""


@dataclass(frozen=True)
class Violation:
    """A broken promise: its name, its sentence, when it was broken in simulated time, and how."""

    promise: str
    sentence: str
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.at:.3f} s: {self.what} [{self.promise}]"


def checked_by(plan: Plan) -> list[str]:
    """The names of the promises that a run of this plan is checked by, in their order."""
    sets = [OF_LATER if plan.later else PROMISES.keys() - LATER_ONLY]
    if plan.configs[0].once is not None:
        sets.append(OF_ONCE)
    elif plan.rewinds:
        sets.append(OF_REWINDS)
    elif any(config.workers > 1 for config in plan.configs):
        sets.append(OF_WORKERS)
    if plan.replays:
        sets.append(OF_REPLAYS)
    if any(t.batch or t.policy.hold_while_down for config in plan.configs for t in config.triggers):
        sets.append(OF_TOGETHER)
    return [name for name in PROMISES if all(name in each for each in sets)]


def violations(plan: Plan, history: History) -> list[Violation]:
    """All that the run broke, in order of time."""
    facts = Facts(plan, history)
    found = []
    for promise in map(PROMISES.__getitem__, checked_by(plan)):
        for count, (at, what) in enumerate(promise.check(facts)):
            if count == MOST:
                break
            found.append(Violation(promise.name, promise.sentence, at, what))
    return sorted(found, key=lambda v: v.at)
