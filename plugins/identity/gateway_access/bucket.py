"""Token buckets, and tables of them that strangers can't make grow."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, Protocol, TypeVar

SLACK_S = 1e-6
"""How much earlier than due something may pass, so that rounding never refuses a sender that waited as told."""
SWEEP_S = 1.0


class Bucket:
    """Lets `per_s` tokens a second pass in the long run, and up to `capacity` at once.

    What needs more than `capacity` passes while the bucket is full, and delays what follows accordingly: the rate
    holds. The state is one number, the time at which the bucket will be full again.
    """

    __slots__ = ("_full_at", "_per_s", "_span_s", "capacity")

    def __init__(self, per_s: float, capacity: float) -> None:
        self.capacity = capacity
        self._per_s = per_s
        self._span_s = capacity / per_s
        self._full_at = -math.inf

    def wait_s(self, now: float, tokens: float) -> float:
        """Seconds until so many tokens can be taken; 0 if they can be now."""
        missing = self._full_at - now
        if missing <= 0.0:
            return 0.0
        needed = tokens / self._per_s if tokens < self.capacity else self._span_s
        wait = missing + needed - self._span_s
        return wait if wait > SLACK_S else 0.0

    def take(self, now: float, tokens: float) -> None:
        """Takes tokens, whether they are there or not."""
        full_at = self._full_at
        if full_at < now:
            full_at = now
        self._full_at = full_at + tokens / self._per_s

    def full(self, now: float) -> bool:
        """Whether it is as a new one."""
        return self._full_at <= now


class Counter(Protocol):
    """What a `Table` holds."""

    def full(self, now: float) -> bool:
        """Whether it is as a new one, so that dropping it loses nothing."""


K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Counter)


class Table(Generic[K, T]):
    """Counters by name, `most` at most. Only those that are full are dropped, so no one gets a new counter by pushing
    the own one out. A name for which there is no room gets `rest`, which all such names share."""

    __slots__ = ("_entries", "_make", "_most", "_sweep_at", "rest")

    def __init__(self, most: float, make: Callable[[], T]) -> None:
        self._most = most
        self._make = make
        self._entries: dict[K, T] = {}
        self._sweep_at = -math.inf
        self.rest = make()

    def get(self, name: K, now: float) -> T:
        """The counter of a name."""
        found = self._entries.get(name)
        return found if found is not None else self._new(name, now)

    def find(self, name: K) -> T | None:
        """The counter of a name, None if it has none of its own."""
        return self._entries.get(name)

    def _new(self, name: K, now: float) -> T:
        entries = self._entries
        if len(entries) >= self._most:
            if now >= self._sweep_at:  # not for each new name: a flood of them stays cheap
                self._sweep_at = now + SWEEP_S
                for gone in [n for n, entry in entries.items() if entry.full(now)]:
                    del entries[gone]
            if len(entries) >= self._most:
                return self.rest
        made = entries[name] = self._make()
        return made

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)
