"""Small models of our protocols, each state of which is looked at; and planted bugs, each of which breaks a promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from gateway_kafka.assigned_partition import AssignedPartition, Leaving
from gateway_kafka.client import Partition
from gateway_kafka.flow import Flow
from gateway_kafka.tracker import Tracker

from tests.models import explorer, kafka_offsets, spark_tables
from tests.models.explorer import Action, Explored, TooManyStates, Violation, explore

# -- the explorer -----------------------------------------------------------------------------------------------------


class Jugs:
    """Two jugs of three and five: how to measure four?"""

    def __init__(self, forbidden: int = 4) -> None:
        self.small = self.large = 0
        self.forbidden = forbidden

    def actions(self) -> Sequence[Action]:
        return [("fill", "small"), ("fill", "large"), ("empty", "small"), ("empty", "large"), ("pour", "into large")]

    def apply(self, action: Action) -> None:
        match action:
            case ("fill", "small"):
                self.small = 3
            case ("fill", "large"):
                self.large = 5
            case ("empty", "small"):
                self.small = 0
            case ("empty", "large"):
                self.large = 0
            case _:
                poured = min(self.small, 5 - self.large)
                self.small, self.large = self.small - poured, self.large + poured
        if self.large == self.forbidden:
            raise Violation(f"there are {self.forbidden} in the large jug")

    def state(self) -> tuple[int, int]:
        return self.small, self.large

    def end(self) -> None:
        raise AssertionError("something can always happen")


@pytest.mark.spec("MODEL-01")
def test_the_explorer_sees_every_state_and_tells_the_shortest_way_to_a_violation() -> None:
    found = explore(Jugs)
    assert found.broken == "there are 4 in the large jug"
    assert len(found.trace) == 8
    assert "  1. fill small" in found.story()
    all_of_it = explore(partial(Jugs, 9))
    assert (all_of_it.broken, all_of_it.trace) == (None, ())
    reachable = {(s, b) for s in range(4) for b in range(6) if s in (0, 3) or b in (0, 5)}
    assert all_of_it.states <= len(reachable)
    with pytest.raises(TooManyStates):
        explore(partial(Jugs, 9), most_states=5)


class Stuck:
    """Ends too early."""

    def __init__(self) -> None:
        self.at = 0

    def actions(self) -> Sequence[Action]:
        return [("go",)] if self.at < 2 else []

    def apply(self, action: Action) -> None:
        self.at += 1

    def state(self) -> int:
        return self.at

    def end(self) -> None:
        raise Violation("it ends too early")


@pytest.mark.spec("MODEL-01")
def test_the_explorer_finds_an_end_that_must_not_be() -> None:
    assert explore(Stuck) == Explored(3, 2, 2, "it ends too early", (("go",), ("go",)))


# -- Kafka ------------------------------------------------------------------------------------------------------------


def kafka(budget: dict[str, int], flow: Callable[..., Flow] = Flow) -> Explored:
    return explore(lambda: kafka_offsets.World(flow, **budget))


@pytest.mark.slow
@pytest.mark.spec("MODEL-02")
@pytest.mark.parametrize(
    "budget",
    [
        pytest.param({"move": 2}, id="rebalances"),
        pytest.param({"move": 1, "hurry": 1}, id="a rebalance that does not wait"),
        pytest.param({"move": 0, "evict": 1}, id="an eviction that the member learns of late"),
        pytest.param({"move": 1, "crash": 1}, id="a crash"),
        pytest.param({"move": 2, "vague": 1}, id="a commit without answer"),
        pytest.param({"move": 2, "hurry": 1}, id="more rebalances", marks=pytest.mark.full),
        pytest.param({"move": 1, "hurry": 1, "crash": 1}, id="a rebalance and a crash", marks=pytest.mark.full),
        pytest.param({"move": 1, "evict": 1, "vague": 1}, id="an eviction and more", marks=pytest.mark.full),
    ],
)
def test_no_record_is_lost_or_out_of_order_in_a_consumer_group(budget: dict[str, int]) -> None:
    found = kafka(budget)
    assert found.broken is None, found.story()
    assert found.states > 500


class CommitsWhatBegan(Tracker):
    """The offset before which all records have begun."""

    @property
    def safe(self) -> int:
        return self.next


class SettlesAll(Tracker):
    """A settled record stands for those before it."""

    def settle(self, offset: int) -> None:
        for before in [o for o in self._line if o <= offset]:
            super().settle(before)


def with_tracker(tracker: Callable[[int], Tracker]) -> type[Flow]:
    class Planted(Flow):
        def assigned(self, partitions: Any, ids: Any = ()) -> None:
            super().assigned(partitions, dict(ids))
            for p in self._partitions.values():
                p.tracker = tracker(p.start)

    return Planted


class KeepsWhatWaits(Flow):
    """Does not drop what has not begun when a partition moves."""

    def _drop(self, p: AssignedPartition) -> set[int]:
        p.queue.clear()
        return set()


class CommitsTheNext(Flow):
    """Commits, when a partition moves, what it would have read next."""

    def left(self, leaving: Leaving) -> dict[Partition, int]:
        super().left(leaving)
        return {p.name: p.tracker.next for p, _ in leaving.partitions}


class ReadsOldAnswers(Flow):
    """Takes the answer to a commit of an earlier assignment for one of this."""

    def committed(self, done: Sequence[tuple[AssignedPartition, int]]) -> None:
        for p, offset in done:
            if p.name in self._partitions:
                self._partitions[p.name].committed = offset


class NeverResumes(Flow):
    """A partition that was paused stays so."""

    def resume(self) -> None:
        pass


@pytest.mark.slow
@pytest.mark.spec("MODEL-02")
@pytest.mark.pure
@pytest.mark.parametrize(
    ("flow", "budget", "broken"),
    [
        (with_tracker(CommitsWhatBegan), {}, "is committed, and record 0 was never delivered"),
        (with_tracker(SettlesAll), {}, "is committed, and record 0 was never delivered"),
        (KeepsWhatWaits, {}, "nothing can happen any more"),
        (CommitsTheNext, {"hurry": 1}, "is committed, and record 0 was never delivered"),
        (ReadsOldAnswers, {"move": 0, "evict": 1}, "but only offset 2 is committed"),
        (NeverResumes, {}, "record 2 was never delivered"),
    ],
)
def test_a_planted_bug_of_a_consumer_group_is_found(flow: type[Flow], budget: dict[str, int], broken: str) -> None:
    found = kafka(budget, flow)
    assert found.broken is not None
    assert broken in found.broken, found.story()


# -- Spark ------------------------------------------------------------------------------------------------------------


def spark(**options: Any) -> Explored:
    return explore(lambda: spark_tables.World(**options))


@pytest.mark.slow
@pytest.mark.spec("MODEL-03")
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"by_type": True}, id="tables by type"),
        pytest.param({"by_type": False}, id="a table and its quarantine"),
        pytest.param({"by_type": True, "crashes": 4}, id="more crashes", marks=pytest.mark.full),
    ],
)
def test_each_event_is_in_one_table_once(options: dict[str, Any]) -> None:
    found = spark(**options)
    assert found.broken is None, found.story()
    assert found.states > 300


def believes_notes(batch: int, last: int, query: str, noted: Any) -> int | None:
    """A batch that is noted counts as written."""
    return None if noted and batch <= noted["batch"] else last + 1


def ignores_notes(batch: int, last: int, query: str, noted: Any) -> int | None:
    """Each batch is a new one."""
    return last + 1


@pytest.mark.slow
@pytest.mark.spec("MODEL-03")
@pytest.mark.parametrize(
    ("options", "broken"),
    [
        ({"number": believes_notes}, "the event is in no table"),
        ({"number": ignores_notes}, "in the tables twice"),
        ({"notes_late": True}, "in the tables twice"),
        ({"saves": False}, "in the tables twice"),
    ],
)
def test_a_planted_bug_of_tables_is_found(options: dict[str, Any], broken: str) -> None:
    found = spark(by_type=True, **options)
    assert found.broken is not None
    assert broken in found.broken, found.story()


def test_worlds_begin_alike() -> None:
    """A world that is made again is the same one."""
    worlds: list[Callable[[], explorer.World]] = [kafka_offsets.World, lambda: spark_tables.World(by_type=True)]
    for make in worlds:
        assert make().state() == make().state()
        assert make().actions() == make().actions()
