"""Limits of a subscription: concurrent attempts, attempts per second, `Retry-After`, memory."""

from __future__ import annotations

from ..config.model import DeliveryConfig
from ..contract.clock import Clock

SHORT_S = (0.05, 1.0)
"""The first and the longest wait, in seconds, before an attempt is repeated that a shortage on this machine
prevented."""


class Budget:
    """Bytes of events that all subscriptions of a process may hold together."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int = 256 * 1024 * 1024) -> None:
        self.limit = limit
        self.used = 0


class Window:
    """Starts fully open at `most`. A retriable failure halves it, at most once a `pause_s` so that one burst of
    failures counts once; every success opens it by one. It never closes below a sixteenth: the retries of an event must
    not wait forever behind others (Knative data plane contract: brokers MUST implement congestion control)."""

    __slots__ = ("_halved", "_least", "_most", "_pause_s", "size")

    def __init__(self, most: int, pause_s: float = 0.1) -> None:
        self._most = most
        self._least = max(1, most // 16)
        self._pause_s = pause_s
        self._halved = float("-inf")
        self.size = most

    def succeeded(self) -> None:
        if self.size < self._most:
            self.size += 1

    def failed(self, now: float) -> None:
        if now - self._halved >= self._pause_s:
            self._halved = now
            self.size = max(self._least, self.size // 2)


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
        # the slack absorbs float rounding: without it a timer could fire slightly early, again and again
        if self._tokens >= 1.0 - 1e-9:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._per_s


class Limits:
    """Decides whether the next attempt may start now."""

    __slots__ = (
        "_alone",
        "_away",
        "_clock",
        "_not_before",
        "_rate",
        "_retry_after_max_s",
        "_short_s",
        "_window",
        "short",
    )

    def __init__(self, policy: DeliveryConfig, clock: Clock) -> None:
        self._clock = clock
        self._window = Window(policy.max_in_flight)
        self._rate = Rate(policy.rate_per_s, clock) if policy.rate_per_s else None
        self._retry_after_max_s = policy.retry_after_max_s
        self._not_before = 0.0
        self._short_s = 0.0
        self._away = self._alone = False  # one attempt at a time
        self.short = False
        """This machine is short of something that an attempt needs. One attempt at a time tests whether it still is."""

    def wait_s(self, in_flight: int) -> float | None:
        """0 if an attempt may start (it counts as started), else the seconds to wait; None if another attempt must end
        first."""
        if in_flight >= (1 if self._alone else self._window.size):
            return None
        if self._not_before:
            wait = self._not_before - self._clock.monotonic()
            if wait > 0:
                return wait
            self._not_before = 0.0
        return self._rate.take() if self._rate else 0.0

    def succeeded(self) -> None:
        """An attempt succeeded."""
        self._window.succeeded()

    def held_up(self) -> None:
        """An attempt could not be made because this machine is short of something. The next one waits, twice as long
        each time (`SHORT_S`); concurrent attempts that meet the same shortage count once."""
        now = self._clock.monotonic()
        self.short = self._alone = True
        if now >= self._not_before:
            first, most = SHORT_S
            self._short_s = min(most, self._short_s * 2 or first)
            self._not_before = now + self._short_s

    def plenty(self) -> None:
        """An attempt was made: the shortage is over."""
        self.short = False
        self._short_s = 0.0
        self._alone = self._away

    def one_at_a_time(self, wait_s: float) -> None:
        """The subscriber is down: allows one attempt at a time, the next one after this wait."""
        self._away = self._alone = True
        self._not_before = max(self._not_before, self._clock.monotonic() + wait_s)

    def all_at_once(self) -> None:
        """The subscriber answers again."""
        self._away = False
        self._alone = self.short

    def failed(self, retry_after_s: float | None) -> float:
        """An attempt failed in a retriable way. Returns how long the subscriber asked us to wait, up to the configured
        maximum (0 if it did not). No attempt starts before that."""
        now = self._clock.monotonic()
        self._window.failed(now)
        if retry_after_s is None:
            return 0.0
        asked = min(retry_after_s, self._retry_after_max_s)
        self._not_before = max(self._not_before, now + asked)
        return asked
