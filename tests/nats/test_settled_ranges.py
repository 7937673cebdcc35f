"""The messages that a reader settled itself."""

from __future__ import annotations

import gateway_nats.settled_ranges as ranges
import pytest
from gateway_nats.settled_ranges import SettledRanges
from hypothesis import example, given
from hypothesis import strategies as st

pytestmark = [pytest.mark.pure, pytest.mark.spec("SAFE-230")]


@example([1, 3, 2])
@given(st.lists(st.integers(1, 40), max_size=60))
def test_it_has_what_was_added_and_nothing_else(numbers: list[int]) -> None:
    found = SettledRanges()
    for number in numbers:
        found.add(number)
    assert [n for n in range(42) if n in found] == sorted(set(numbers))


def test_the_oldest_ranges_are_forgotten() -> None:
    found = SettledRanges()
    for number in range(0, 2 * ranges.MOST + 2, 2):
        found.add(number)
    assert 0 not in found
    assert all(n in found for n in range(2, 2 * ranges.MOST + 2, 2))
