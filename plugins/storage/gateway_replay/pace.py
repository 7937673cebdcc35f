"""How fast a replay goes without a limit of its own: live events come first.

It hands over a few events, and lets the event loop have a moment. If that came late, the loop has much to do, with
these events or with others: then it hands over half as many. Otherwise one more, up to what the trigger may have. While
no live events come, a moment is a single turn of the loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

MOMENT_S = 0.002
LATE_S = 0.001
"""A moment that is late by more than this is late."""
MOST = 64
QUIET_S = 1.0
"""No live events come if none has come for so long."""


class Pace:
    """`burst` is how many events may be handed over before the next moment. `accepted` counts live events; `now` and
    `sleep` are the loop's."""

    def __init__(
        self,
        accepted: Callable[[], int],
        now: Callable[[], float] = anyio.current_time,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._accepted = accepted
        self._now = now
        self._sleep = sleep
        self._known, self._since = accepted(), now()
        self.burst = 1

    async def moment(self) -> None:
        """Returns a moment later."""
        now, accepted = self._now(), self._accepted()
        if accepted != self._known:
            self._known, self._since = accepted, now
        moment = 0.0 if now - self._since > QUIET_S else MOMENT_S
        await self._sleep(moment)
        late = self._now() - now - moment > LATE_S
        self.burst = max(1, self.burst // 2) if late else min(MOST, self.burst + 1)
