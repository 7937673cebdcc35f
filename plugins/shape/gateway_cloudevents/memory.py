"""Bounded caches: header names and attribute values repeat from event to event."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K", str, bytes, tuple[str, ...])
V = TypeVar("V")

_ENTRIES = 4096
_LONGEST = 256  # characters or bytes in a key; with _ENTRIES this limits a cache to a few megabytes


class Memory(dict[K, V]):
    """A dict that computes and caches missing values. When it is full it is cleared: that is cheaper than tracking use,
    and a sender of ever new values only loses the benefit."""

    def __init__(self, work_out: Callable[[K], V]) -> None:
        super().__init__()
        self._work_out: Callable[[K], V] = work_out

    def __missing__(self, key: K) -> V:
        value: V = self._work_out(key)  # an error is not cached
        if (sum(map(len, key)) if isinstance(key, tuple) else len(key)) <= _LONGEST:
            if len(self) >= _ENTRIES:
                self.clear()
            self[key] = value
        return value
