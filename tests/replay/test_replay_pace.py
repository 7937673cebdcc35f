"""How a replay goes slower while the gateway has much to do."""

from __future__ import annotations

import pytest
from gateway_replay.pace import LATE_S, MOST, Pace

pytestmark = [pytest.mark.anyio, pytest.mark.spec("AGAIN-26")]


class Loop:
    """Wakes up late by as much as it is told."""

    def __init__(self) -> None:
        self.now = self.late = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds + self.late


async def test_it_halves_while_the_loop_is_late_and_comes_back_one_by_one() -> None:
    loop = Loop()
    pace = Pace(lambda: loop.now, loop.sleep)
    for _ in range(100):
        await pace.moment()
    assert pace.burst == MOST
    loop.late = 2 * LATE_S
    seen = []
    for _ in range(8):
        await pace.moment()
        seen.append(pace.burst)
    assert seen == [32, 16, 8, 4, 2, 1, 1, 1], "never nothing: it gets to its end"
    loop.late = 0.5 * LATE_S
    for _ in range(3):
        await pace.moment()
    assert pace.burst == 4
