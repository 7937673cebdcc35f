"""Durations in buckets; cheap enough to be recorded for every event."""

from __future__ import annotations

from bisect import bisect_left

from ..contract.status import Durations

BOUNDS_S = (
    *(0.0005, 0.001, 0.0025),  # what happens within one machine
    # OpenTelemetry's semantic conventions for durations in messaging and HTTP
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(30.0, 60.0, 300.0, 1800.0, 3600.0),  # what needs retries
)
"""The upper bounds of the buckets in seconds, each included (Prometheus's `le`); one more bucket counts longer ones."""


_EMPTY = Durations([0] * (len(BOUNDS_S) + 1))


class Histogram:
    """How many durations fell into each bucket, and their sum in seconds. It has no buckets of its own until then."""

    __slots__ = ("buckets", "sum_s")

    def __init__(self) -> None:
        self.buckets = _EMPTY.buckets
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Counts one. It must not be negative."""
        if self.buckets is _EMPTY.buckets:
            self.buckets = [*_EMPTY.buckets]
        self.buckets[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def status(self) -> Durations:
        """The current numbers."""
        return _EMPTY if self.buckets is _EMPTY.buckets else Durations(list(self.buckets), round(self.sum_s, 6))
