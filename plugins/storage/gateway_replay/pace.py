"""How fast a replay goes without a limit of its own: live events come first.

It hands over a few events, and lets the event loop have a moment. If that came late, the loop has much to do, with
these events or with others: then it hands over half as many. Otherwise one more, up to what the trigger may have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

MOMENT_S = 0.002
LATE_S = 0.001
"""A moment that is late by more than this is late."""
MOST = 64


class Pace:
    """`burst` is how many events may be handed over before the next moment. `now` and `sleep` are the loop's."""

    def __init__(
        self,
        now: Callable[[], float] = anyio.current_time,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._now = now
        self._sleep = sleep
        self.burst = 1

    async def moment(self) -> None:
        """Returns a moment later."""
        due = self._now() + MOMENT_S
        await self._sleep(MOMENT_S)
        late = self._now() - due > LATE_S
        self.burst = max(1, self.burst // 2) if late else min(MOST, self.burst + 1)
