"""How many attempts may start in a second."""

from __future__ import annotations

from ..clock import Clock


class Rate:
    """A token bucket: `per_s` attempts a second, with a burst of at most a tenth of a second's worth (at least one)."""

    __slots__ = ("_burst", "_clock", "_filled", "_per_s", "_tokens")

    def __init__(self, per_s: float, clock: Clock) -> None:
        self._per_s = per_s
        self._burst = max(1.0, per_s / 10)
        self._tokens = self._burst
        self._clock = clock
        self._filled = clock.monotonic()

    def take(self) -> float:
        """Takes one token and returns 0, or returns the seconds until there is one."""
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._per_s)
        self._filled = now
        # the slack is for float rounding: without it a timer could fire a hair too early, again and again
        if self._tokens >= 1.0 - 1e-9:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._per_s
