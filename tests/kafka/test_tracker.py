"""Offsets: what is committed is never past a record that is not settled."""

from __future__ import annotations

import pytest
from gateway_kafka.tracker import Tracker
from hypothesis import given
from hypothesis import strategies as st


def tracker(*offsets: int, start: int = 0) -> Tracker:
    """A tracker with these offsets begun."""
    made = Tracker(start)
    for offset in offsets:
        made.begin(offset)
    return made


def settled(made: Tracker, *offsets: int) -> list[int]:
    """What is safe after each of these."""
    found = []
    for offset in offsets:
        made.settle(offset)
        found.append(made.safe)
    return found


@pytest.mark.parametrize(
    ("order", "safe"),
    [
        ([0, 1, 2, 3], [1, 2, 3, 4]),
        ([3, 2, 1, 0], [0, 0, 0, 4]),
        ([1, 3, 0, 2], [0, 0, 2, 4]),
        ([0, 2, 3, 1], [1, 1, 1, 4]),
        ([2, 0, 3, 1], [0, 1, 1, 4]),
    ],
    ids=str,
)
def test_only_what_has_nothing_open_before_it_is_safe(order: list[int], safe: list[int]) -> None:
    assert settled(tracker(0, 1, 2, 3), *order) == safe


def test_before_anything_is_settled_the_start_is_safe() -> None:
    assert tracker(start=7).safe == 7
    assert tracker(7, 8, start=7).safe == 7


def test_one_that_never_ends_holds_back_all_behind_it() -> None:
    made = tracker(*range(1000))
    assert settled(made, *range(500), *range(501, 1000))[-1] == 500
    assert (made.open, made.ahead) == ({500}, 500)
    assert settled(made, 500) == [1000]
    assert (made.open, made.ahead) == (set(), 0)


@pytest.mark.parametrize("size", [63, 64, 65, 128, 1000])
def test_a_long_line_settled_backwards_is_safe_at_once_in_the_end(size: int) -> None:
    made = tracker(*range(size))
    assert settled(made, *range(size - 1, 0, -1)) == [0] * (size - 1)
    assert settled(made, 0) == [size]


def test_gaps_in_offsets_hold_nothing_back() -> None:
    made = tracker(12, 15, 16, 30, start=10)
    assert made.safe == 12  # there is no 10 and no 11
    assert settled(made, 15, 12, 16, 30) == [12, 16, 30, 31]


def test_what_was_never_begun_is_left_alone() -> None:
    made = tracker(12, 15, start=10)
    assert settled(made, 9, 10, 13, 14, 16, 99) == [12] * 6
    assert made.open == {12, 15}
    assert settled(made, 12, 13, 15) == [15, 15, 16]


def test_settled_twice_is_settled_once() -> None:
    made = tracker(0, 1, 2)
    assert settled(made, 1, 1, 0, 0, 1) == [0, 0, 2, 2, 2]
    assert made.open == {2}


def test_it_goes_on_after_all_was_settled() -> None:
    made = tracker(0, 1)
    assert settled(made, 1, 0) == [0, 2]
    made.begin(5)
    assert (made.safe, made.next) == (5, 6)
    assert settled(made, 5) == [6]


@given(
    st.integers(0, 2**40),
    st.lists(st.integers(1, 4), min_size=1, max_size=40),
    st.lists(st.tuples(st.sampled_from("bbssu"), st.integers(0, 170)), max_size=120),
)
def test_safe_is_the_first_that_is_not_settled(start: int, gaps: list[int], steps: list[tuple[str, int]]) -> None:
    """Begins the next, settles one that has begun (perhaps again), or any other; the model knows all."""
    made = Tracker(start)
    coming = [start + sum(gaps[: n + 1]) - 1 for n in range(len(gaps))]
    begun: dict[int, bool] = {}
    for what, n in steps:
        if what == "b" and coming:
            begun[coming[0]] = False
            made.begin(coming.pop(0))
        elif what != "b":
            offset = sorted(begun)[n % len(begun)] if what == "s" and begun else start + n - 2
            made.settle(offset)
            if offset in begun:
                begun[offset] = True
        open = [o for o, done in begun.items() if not done]
        after = max(begun) + 1 if begun else start
        assert made.safe == (open[0] if open else after)
        assert made.next == after
        assert made.open == set(open)
        assert made.ahead == (sum(o >= open[0] for o in begun) if open else 0)
