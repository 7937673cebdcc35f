"""What several components have in common, for as long as one of them needs it.

This module stays interpreted: nothing can refer weakly to an instance of a compiled class.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class Shared(Generic[T]):
    """A value that exists as long as someone holds this."""

    __slots__ = ("__weakref__", "value")

    def __init__(self, value: T) -> None:
        self.value = value


class InUse(Generic[T]):
    """The values that are in use, by their keys."""

    def __init__(self) -> None:
        self._found: WeakValueDictionary[Hashable, Shared[T]] = WeakValueDictionary()

    def get(self, key: Hashable, make: Callable[[], T]) -> Shared[T]:
        """The value with this key, or a new one."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = Shared(make())
        return found
