"""Token buckets, and tables of them."""

from __future__ import annotations

import math

import pytest
from gateway_access.bucket import SLACK_S, SWEEP_S, Bucket, Table
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples

STEPS = st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 40)), min_size=1, max_size=60)


@pytest.mark.slow
@pytest.mark.spec("LI-01")
@given(st.integers(1, 50), st.integers(1, 50), STEPS)
@examples(200)
def test_no_window_lets_more_pass_than_its_rate_and_a_burst(
    per_s: int, capacity: int, steps: list[tuple[int, int]]
) -> None:
    bucket = Bucket(per_s, capacity)
    now = 0.0
    passed: list[tuple[float, int]] = []
    for wait_ms, tokens in steps:
        now += wait_ms / 1000
        if (wait := bucket.wait_s(now, tokens)) == 0.0:
            bucket.take(now, tokens)
            passed.append((now, tokens))
            continue
        assert bucket.wait_s(now + wait, tokens) == 0.0  # whoever waits as told passes
        early = now + wait - 0.001
        assert early <= now or bucket.wait_s(early, tokens) > 0.0  # and was not told to wait longer than necessary
    for i, (begin, _) in enumerate(passed):
        total = 0
        for end, tokens in passed[i:]:
            total += tokens
            # what is larger than the bucket passes only when it is full, and is made up for later
            burst = max(capacity, *(t for _, t in passed))
            assert total <= per_s * (end - begin + len(passed) * SLACK_S) + burst + 1e-6


@pytest.mark.spec("LI-01")
def test_a_large_one_passes_and_delays_the_next() -> None:
    bucket = Bucket(10, 5)
    assert bucket.wait_s(0, 30) == 0
    bucket.take(0, 30)
    assert bucket.wait_s(0, 1) == pytest.approx(2.6)  # 25 below zero, one needed
    assert bucket.wait_s(0, 30) == pytest.approx(3.0)  # full again
    assert bucket.wait_s(3.0, 30) == 0
    assert (bucket.full(2.99), bucket.full(3.0)) == (False, True)


def test_rounding_refuses_nobody() -> None:
    """At a late time of the clock, where a float has few digits left."""
    now = 1e7
    bucket = Bucket(3, 1)
    for _ in range(1000):
        bucket.take(now, 1)
        now += math.ceil(bucket.wait_s(now, 1) * 1e9) / 1e9
        assert bucket.wait_s(now, 1) == 0.0


class TestTable:
    def test_it_never_grows_beyond_its_size(self) -> None:
        table: Table[str, Bucket] = Table(3, lambda: Bucket(1, 1))
        for number in range(10):
            table.get(str(number), 0.0).take(0.0, 1)
        assert len(table) == 3
        assert table.get("9", 0.0) is table.rest
        assert table.get("8", 0.0) is table.rest
        assert table.find("9") is None

    @pytest.mark.spec("LI-04")
    def test_no_one_is_pushed_out_while_counted(self) -> None:
        table: Table[str, Bucket] = Table(3, lambda: Bucket(1, 1))
        mine = table.get("mine", 0.0)
        mine.take(0.0, 10)
        for now in range(9):
            for number in range(50):
                table.get(f"{now}.{number}", now).take(now, 1)
            assert table.get("mine", now) is mine
        assert table.get("mine", 11.0 + SWEEP_S) is mine  # nobody needed its place

    def test_who_was_idle_makes_room(self) -> None:
        table: Table[str, Bucket] = Table(2, lambda: Bucket(1, 1))
        for name in ("a", "b"):
            table.get(name, 0.0).take(0.0, 1)
        assert table.get("c", 0.5) is table.rest
        assert table.get("c", 0.6) is table.rest
        assert table.get("c", 0.5 + SWEEP_S) is not table.rest
        assert set(table) == {"c"}

    def test_a_flood_of_names_sweeps_once_a_second(self) -> None:
        swept = 0

        class Counting(Bucket):
            def full(self, now: float) -> bool:
                nonlocal swept
                swept += 1
                return False

        table: Table[str, Bucket] = Table(100, lambda: Counting(1, 1))
        for number in range(5000):
            table.get(str(number), 1.0)
        assert swept == 100
