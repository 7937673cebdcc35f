"""How a replay goes slower while the gateway has much to do."""

from __future__ import annotations

import pytest
from gateway_replay.pace import LATE_S, MOMENT_S, MOST, QUIET_S, Pace

pytestmark = [pytest.mark.anyio, pytest.mark.spec("AGAIN-26")]


class Loop:
    """Wakes up late by as much as it is told."""

    def __init__(self) -> None:
        self.now = self.late = self.slept = 0.0

    def now_s(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept = seconds
        self.now += seconds + self.late


async def test_it_halves_while_the_loop_is_late_and_comes_back_one_by_one() -> None:
    loop = Loop()
    pace = Pace(lambda: int(loop.now * 10), loop.now_s, loop.sleep)
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


async def test_while_no_live_events_come_it_waits_for_a_turn_of_the_loop_only() -> None:
    loop, live = Loop(), [0]
    pace = Pace(lambda: live[0], loop.now_s, loop.sleep)
    await pace.moment()
    assert loop.slept == MOMENT_S, "it does not know yet"
    loop.now += QUIET_S
    await pace.moment()
    assert loop.slept == 0
    loop.late = 2 * LATE_S
    before = pace.burst
    await pace.moment()
    assert (loop.slept, pace.burst) == (0, max(1, before // 2)), "but it still goes slower if the loop is late"
    live[0] += 1
    await pace.moment()
    assert loop.slept == MOMENT_S
