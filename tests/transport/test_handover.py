"""What `gateway_transport.handover.Handover` settles, and what it never settles."""

from __future__ import annotations

import random
from collections.abc import Sequence

import anyio
import anyio.lowlevel
import pytest
from gateway_testing.clock import FakeClock
from gateway_transport.handover import Handover
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.errors import NotDelivered, Overloaded, Refused, StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Accepted, Admission, Outcome

ATTRIBUTES = {"specversion": "1.0", "source": "/s", "type": "t"}
CHOICES = ("ok", "ok", "ok", "later", "busy", "disk", "refused")


def event(number: int) -> Event:
    return Event({**ATTRIBUTES, "id": str(number)})


class RandomIntake:
    """Answers by chance, at once or later. `safe` are the ids that are stored, `order` those in the order they came,
    without repetitions; ids in `poison` are never taken, but in the dead letter."""

    deduplicates = False
    admissions: Sequence[Admission] = ()

    def __init__(self, chance: random.Random, stores: bool, poison: set[str]) -> None:
        self.stores = stores
        self.poison = poison
        self.safe: list[str] = []
        self.late: list[tuple[list[str], Accepted]] = []
        self.well = False
        self._chance = chance

    def accept(self, events: Sequence[Event], done: Accepted) -> None:
        ids = [str(e.attributes["id"]) for e in events]
        assert ids
        assert self.stores or len(ids) == 1, "a bridge gets them one by one"
        choice = "ok" if self.well else self._chance.choice(CHOICES)
        if choice == "busy":
            done(Overloaded("full"))
        elif choice == "disk":
            done(StorageError("no space"))
        elif self.poison & {*ids}:
            done(Refused("too large") if self._chance.random() < 0.5 else NotDelivered("never"))
        elif choice == "later":
            self.late.append((ids, done))
        else:
            self.safe += ids
            done(None)

    def answer_late(self) -> None:
        late, self.late = self.late, []
        for ids, done in late:
            if not self.well and self._chance.random() < 0.3:
                done(StorageError("failed after all"))
            else:
                self.safe += ids
                done(None)

    def undeliverable(self, event: Event, outcome: Outcome, dest: str, done: Accepted) -> None:
        if not self.well and self._chance.random() < 0.3:
            done(StorageError("the dead letter is full"))
        else:
            self.safe.append(str(event.attributes["id"]))
            done(None)

    def refuse(self, error: Refused) -> None: ...

    def attempted(self, event: Event, outcome: Outcome, seconds: float) -> None: ...

    def withdraw(self, partition: int) -> Sequence[int]:
        return ()


@given(
    seed=st.integers(0, 2**32),
    stores=st.booleans(),
    in_order=st.booleans(),
    count=st.integers(1, 40),
    poison=st.sets(st.integers(0, 39), max_size=4),
    drop_at=st.one_of(st.none(), st.integers(0, 39)),
)
def test_it_settles_all_that_is_safe_and_nothing_else(
    seed: int, stores: bool, in_order: bool, count: int, poison: set[int], drop_at: int | None
) -> None:
    chance = random.Random(seed)
    clock = FakeClock()
    intake = RandomIntake(chance, stores, {str(n) for n in poison})
    settled: list[int] = []

    def settle(token: int) -> None:
        assert str(token) in intake.safe, "acknowledged what is not safe"
        assert token not in settled, "acknowledged twice"
        settled.append(token)

    handover: Handover[int] = Handover("source", "test://", clock, settle, in_order=in_order)
    handover.intake = intake
    void: set[int] = set()
    for number in range(count):
        handover.take(event(number), number)
        if number == drop_at:
            void = {*range(number + 1)} - {*settled}
            handover.drop()
            before = len(settled)
        if chance.random() < 0.3:
            intake.answer_late()
        if chance.random() < 0.3:
            clock.advance(chance.random() * 2)
    intake.well = True
    for _ in range(200):
        clock.advance(1)
        intake.answer_late()
    assert sorted(settled) == sorted({*range(count)} - void)
    assert handover.held == 0
    if in_order:
        assert settled == sorted(settled)
    if void:
        assert not void & {*settled[before:]}


@pytest.mark.parametrize("stores", [True, False])
def test_what_can_not_be_taken_now_comes_before_what_arrived_later(stores: bool) -> None:
    clock = FakeClock()
    intake = RandomIntake(random.Random(0), stores, set())
    intake.accept = _first_fails(intake)  # type: ignore[method-assign]
    settled: list[int] = []
    handover: Handover[int] = Handover("source", "test://", clock, settled.append)
    handover.intake = intake
    for number in range(5):
        handover.take(event(number), number)
    assert settled == []
    clock.advance(2)
    assert intake.safe == [str(n) for n in range(5)]
    assert settled == [*range(5)]


def _first_fails(intake: RandomIntake):  # type: ignore[no-untyped-def]
    answers = [StorageError("full"), Overloaded("full")]

    def accept(events: Sequence[Event], done: Accepted) -> None:
        if answers:
            done(answers.pop())
        else:
            intake.safe += [str(e.attributes["id"]) for e in events]
            done(None)

    return accept


@pytest.mark.anyio
async def test_a_drain_waits_for_what_is_under_way_and_takes_nothing_else(anyio_backend: object) -> None:
    intake = RandomIntake(random.Random(0), True, set())
    held: list[Accepted] = []
    intake.accept = lambda events, done: held.append(done)  # type: ignore[method-assign]
    settled: list[int] = []
    handover: Handover[int] = Handover("source", "test://", FakeClock(), settled.append)
    handover.intake = intake
    for number in range(3):
        handover.take(event(number), number)
    assert len(held) == 1
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(handover.drain)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        assert settled == []
        intake.safe.append("0")
        held[0](None)
    assert settled == [0]
    assert len(held) == 1, "a new group began while it drained"
    assert handover.held == 0


@pytest.mark.spec("SAFE-80")
@pytest.mark.anyio
async def test_a_group_is_bounded_in_bytes() -> None:
    groups: list[list[int]] = []
    answers: list[Accepted] = []

    class Slow:
        stores = True
        deduplicates = False
        admissions: Sequence[Admission] = ()

        def accept(self, events: Sequence[Event], done: Accepted) -> None:
            groups.append([len(e.data or b"") for e in events])
            answers.append(done)

    settled: list[int] = []
    handover: Handover[int] = Handover("s", "a", FakeClock(), settled.append)
    handover.intake = Slow()  # type: ignore[assignment]
    for number in range(50):
        size = 3_000_000 if number == 30 else 100_000
        handover.take(Event({**ATTRIBUTES, "id": str(number)}, bytes(size)), number)
    while answers:
        answers.pop()(None)
    assert settled == list(range(50))
    assert all(sum(group) <= 1024 * 1024 or len(group) == 1 for group in groups), groups
    assert len(groups) < 12
