"""A clock that moves only when a test advances it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any


class _Timer:
    def __init__(self, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.call: Callable[..., Any] | None = call
        self.args = args

    def cancel(self) -> None:
        self.call = None


class FakeClock:
    """A `Clock` for tests: `advance(seconds)` runs the timers that become due, in order; `set_by(seconds)` sets the
    time of day forward or back, as a machine does whose clock was wrong."""

    def __init__(self, start_s: float = 1_800_000_000.0) -> None:
        self._start = start_s
        self._now = 0.0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._count = itertools.count()

    def now_ns(self) -> int:
        return int((self._start + self._now) * 1e9)

    def monotonic(self) -> float:
        return self._now

    def set_by(self, seconds: float) -> None:
        """Sets the time of day. Timers and `monotonic` are unchanged."""
        self._start += seconds

    def call_later(self, delay_s: float, call: Callable[..., Any], *args: Any) -> _Timer:
        timer = _Timer(call, args)
        heapq.heappush(self._timers, (self._now + max(delay_s, 0.0), next(self._count), timer))
        return timer

    def next_timer(self) -> float | None:
        """Seconds until the next timer, None if there is none."""
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] - self._now if self._timers else None

    def advance(self, seconds: float) -> None:
        """Advances the time and runs each timer at its own time."""
        end = self._now + seconds
        while (wait := self.next_timer()) is not None and self._now + wait <= end + 1e-12:
            due, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            call, timer.call = timer.call, None
            if call is not None:
                call(*timer.args)
        self._now = end
