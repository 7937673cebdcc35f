"""Subscriptions that were detached and may come back: a reload detaches what it changes, and then attaches it again."""

from __future__ import annotations

from collections.abc import Container, Mapping

from .cursor import CursorState


class Departures:
    """While `reloading`, nothing at all may be deleted."""

    def __init__(self) -> None:
        self.reloading = False
        self._left: dict[str, dict[int, int]] = {}  # the sequences that they still need, by name and shard

    def floors(self, shard: int) -> list[int]:
        """The first sequences of this shard that they still need."""
        return [needed[shard] for needed in self._left.values() if shard in needed]

    def leave(self, name: str, states: Mapping[int, CursorState]) -> bool:
        """A subscription leaves; whether it may come back."""
        if self.reloading:
            self._left[name] = {shard: min((*state.pending, state.next or 1)) for shard, state in states.items()}
        return self.reloading

    def back(self, name: str) -> None:
        """It is back, and its own cursor counts."""
        self._left.pop(name, None)

    def hold(self, wanted: Container[str] | None) -> list[str]:
        """A reload begins if None. Else it has ended, and those are returned that are gone for good; the others are
        `wanted`, and could not be attached again."""
        self.reloading = wanted is None
        if wanted is None:
            return []
        gone = [name for name in self._left if name not in wanted]
        for name in gone:
            del self._left[name]
        return gone
