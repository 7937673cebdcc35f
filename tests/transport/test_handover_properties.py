"""`Handover`, with an intake that answers as it pleases: at once or later, with room or without, for ever or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from gateway_testing import FakeClock
from gateway_transport.handover import Handover
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.errors import NotDelivered, Overloaded, Refused, StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Accepted, Admission, Outcome
from gateway_core.contract.outcome import Stage
from tests.budget import examples

ERRORS: dict[str, Callable[[], BaseException]] = {
    "full": lambda: Overloaded("too much"),
    "broken": lambda: StorageError("the disk is full"),
}
FINAL: list[Callable[[], BaseException]] = [
    lambda: Refused("too large"),
    lambda: NotDelivered("the sink will never take it"),
]


@dataclass
class Asked:
    """One call of the intake that waits for its answer."""

    events: list[Event]
    done: Accepted
    dead_letter: bool


@dataclass
class Whim:
    """An intake that follows a script of answers: "later", "ok", or a word of `ERRORS`; "ok" at its end."""

    stores: bool
    script: list[str]
    never: frozenset[int]
    in_line: bool
    deduplicates: bool = False
    asked: list[Asked] = field(default_factory=list)
    safe: set[int] = field(default_factory=set)
    stored: list[int] = field(default_factory=list)
    inside: bool = False
    closed: bool = False
    valid: set[int] = field(default_factory=set)  # of this connection
    waiting: set[int] = field(default_factory=set)  # taken, and to be offered (again)
    admissions: Sequence[Admission] = ()

    def accept(self, events: Sequence[Event], done: Accepted) -> None:
        assert not self.closed, "offered during the stop"
        assert not self.inside, "called from its own answer"
        if self.stores:
            assert not any(not one.dead_letter for one in self.asked), "two groups are under way"
        else:
            assert len(events) == 1
        numbers = [number_of(event) for event in events]
        assert numbers == sorted(self.waiting)[: len(numbers)], "offered before an earlier one that waits"
        self.waiting -= {*numbers}
        self._ask(Asked(list(events), done, False))

    def undeliverable(self, event: Event, outcome: Outcome, dest: str, done: Accepted) -> None:
        assert outcome.reason
        self._ask(Asked([event], done, True))

    def _ask(self, asked: Asked) -> None:
        answer = self.script.pop(0) if self.script else "ok"
        if answer == "later":
            self.asked.append(asked)
            return
        self.inside = True
        try:
            self._answer(asked, answer)
        finally:
            self.inside = False

    def answer(self, index: int, answer: str) -> None:
        """Answers one call that waits."""
        if self.asked:
            self._answer(self.asked.pop(index % len(self.asked)), answer)

    def _answer(self, asked: Asked, answer: str) -> None:
        numbers = [number_of(event) for event in asked.events]
        if answer in ERRORS:
            self.waiting |= {*numbers} & self.valid if not asked.dead_letter else set()
            asked.done(ERRORS[answer]())
        elif not asked.dead_letter and self.never & {*numbers}:
            self.waiting |= {*numbers} & self.valid if len(numbers) > 1 else set()
            asked.done(FINAL[numbers[0] % 2]())
        else:
            self.safe.update(numbers)
            if not asked.dead_letter:
                self.stored += numbers
            asked.done(None)

    def withdraw(self, partition: int) -> Sequence[int]:
        """A bridge drops what it has not begun to deliver: here, half of what waits for an answer."""
        if self.stores:
            return ()
        dropped = [asked for n, asked in enumerate(self.asked) if n % 2 and not asked.dead_letter]
        self.asked = [asked for asked in self.asked if asked not in dropped]
        return [asked.events[0].position for asked in dropped]

    def refuse(self, error: Refused) -> None:
        raise AssertionError("the handover refuses nothing")

    attempted: Any = None


def number_of(event: Event) -> int:
    return int(str(event.attributes["id"]))


def event_of(number: int) -> Event:
    return Event({"specversion": "1.0", "id": str(number), "source": "/s", "type": "t"})


class Run:
    """A handover, what was done with it, and what must hold after each step."""

    def __init__(self, intake: Whim, in_order: bool) -> None:
        self.clock = FakeClock()
        self.intake = intake
        self.in_order = in_order
        self.settled: list[int] = []
        self.skipped: set[int] = set()
        self.valid: list[int] = []  # numbers of this connection, in the order of `take`
        self.count = 0
        self.handover: Handover[int] = Handover("test", "test:", self.clock, self._settle, in_order=in_order)
        self.handover.intake = intake

    def _settle(self, number: int) -> None:
        assert number in self.valid, "a token of a connection that is gone"
        assert number not in self.settled, "settled twice"
        assert number in self.intake.safe or number in self.skipped, "settled before it was safe"
        self.settled.append(number)
        if self.in_order:
            assert self.valid[: len(self.settled)] == self.settled, "settled out of order"

    def _take(self, kind: str) -> None:
        number, self.count = self.count, self.count + 1
        self.valid.append(number)
        self.intake.valid.add(number)
        if kind == "event":
            self.intake.waiting.add(number)
            self.handover.take(event_of(number), number)
        elif kind == "nonsense":
            self.handover.dead_letter(event_of(number), number, Outcome(False, stage=Stage.DECODE, reason="x"))
        else:
            self.skipped.add(number)
            self.handover.skip(number)

    def step(self, action: tuple[Any, ...]) -> None:
        match action:
            case ("take", kinds):
                for kind in kinds:
                    self._take(kind)
            case ("answer", index, answer):
                self.intake.answer(index, answer)
            case ("wait", seconds):
                self.clock.advance(seconds)
            case ("drop",):
                self.valid, self.settled = [], []
                self.intake.valid, self.intake.waiting = set(), set()
                self.handover.drop()
                assert self.clock.next_timer() is None, "a timer is left"
        assert self.handover.held == len(self.valid) - len(self.settled)

    def heal(self) -> None:
        """From now on the intake takes everything. Whatever waits must come to its end."""
        self.intake.script.clear()
        for _ in range(3):
            while self.intake.asked:
                self.intake.answer(0, "ok")
            self.clock.advance(10)
        assert sorted(self.settled) == self.valid, "something was never settled"
        assert self.handover.held == 0
        assert self.clock.next_timer() is None, "a timer is left"
        assert not self.intake.waiting

    async def end(self, answers: list[str]) -> None:
        """A stop, during which the intake answers what it has to."""
        draining = asyncio.ensure_future(self.handover.drain(30))
        await asyncio.sleep(0)
        self.intake.closed = True
        while self.intake.asked:
            assert not draining.done(), "it ended although something was under way"
            self.intake.answer(0, answers.pop() if answers else "ok")
            await asyncio.sleep(0)
        await asyncio.wait_for(draining, 20)
        assert self.clock.next_timer() is None, "a timer is left"


WORDS = st.sampled_from(["later", "later", "later", "ok", *ERRORS])
KINDS = st.sampled_from(["event", "event", "event", "event", "nonsense", "skip"])
ACTIONS = st.one_of(
    st.tuples(st.just("take"), st.lists(KINDS, min_size=1, max_size=4)),
    st.tuples(st.just("answer"), st.integers(0, 3), st.sampled_from(["ok", *ERRORS])),
    st.tuples(st.just("answer"), st.integers(0, 3), st.sampled_from(["ok", *ERRORS])),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 1.0, 6.0])),
    st.tuples(st.just("drop")),
)
RUNS = st.builds(
    lambda stores, script, never, in_order: Run(Whim(stores, script, never, in_order), in_order),
    st.booleans(),
    st.lists(WORDS, min_size=4, max_size=20),
    st.frozensets(st.integers(0, 6), max_size=3),
    st.booleans(),
)
STEPS = st.lists(ACTIONS, min_size=2, max_size=15)


@pytest.mark.slow
@pytest.mark.spec("TR-04")
@examples(200)
@given(RUNS, STEPS)
def test_whatever_the_intake_does_each_message_is_settled_once_and_when_it_is_safe(
    run: Run, steps: list[tuple[Any, ...]]
) -> None:
    for step in steps:
        run.step(step)
    run.heal()
    if run.intake.stores:
        assert run.intake.stored == sorted(set(run.intake.stored)), "stored out of order, or twice"


@pytest.mark.slow
@pytest.mark.spec("TR-04")
@examples(200)
@given(RUNS, STEPS, st.lists(st.sampled_from(["ok", *ERRORS]), max_size=6))
def test_a_stop_waits_for_what_is_under_way_and_for_nothing_else(
    run: Run, steps: list[tuple[Any, ...]], answers: list[str]
) -> None:
    for step in steps:
        run.step(step)
    asyncio.run(run.end(list(answers)))
