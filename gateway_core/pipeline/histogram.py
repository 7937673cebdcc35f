"""Durations in buckets; cheap enough to be recorded for every event."""

from __future__ import annotations

from bisect import bisect_left

from ..contract.status import BOUNDS_S, Durations

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
