"""Bounded memories of what was worked out before: header names and attribute values repeat from event to event."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K", str, bytes, tuple[str, ...])
V = TypeVar("V")

_ENTRIES = 4096
_LONGEST = 256  # characters or bytes in a key; with _ENTRIES this bounds a memory to a few megabytes


class Memory(dict[K, V]):
    """A dict that works out what it does not have, and remembers it. Where it is full it begins anew: that costs less
    than to keep track of use, and a sender of ever new values only loses the gain."""

    def __init__(self, work_out: Callable[[K], V]) -> None:
        super().__init__()
        self._work_out: Callable[[K], V] = work_out

    def __missing__(self, key: K) -> V:
        value: V = self._work_out(key)  # an error is not remembered
        if (sum(map(len, key)) if isinstance(key, tuple) else len(key)) <= _LONGEST:
            if len(self) >= _ENTRIES:
                self.clear()
            self[key] = value
        return value
