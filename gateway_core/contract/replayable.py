"""Channels whose past events can be read again: for replays to one trigger, and to set a trigger back."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from .event import Event


@dataclass(frozen=True, slots=True)
class Stretch:
    """The events of some time, as positions: `parts` has for each partition (the log: shard) the number of the first
    event, and the one before which it ends. It may begin earlier and end later than that time, by what times may be out
    of order. `oldest_ns` is when the oldest event that the channel has was accepted (Unix time), 0 if it has none.
    `whole_from_ns` is the time since which all events are still there, 0 if none was ever deleted."""

    parts: Mapping[int, tuple[int, int]]
    oldest_ns: int = 0
    whole_from_ns: int = 0


@runtime_checkable
class Replayable(Protocol):
    """A channel whose past events can be read again."""

    async def stretch(self, from_ns: int, to_ns: int) -> Stretch:
        """The events that were accepted from `from_ns` to before `to_ns`, of those that are stored now, and of all
        workers. Raises `StorageError`."""

    async def read_again(self, partition: int, first: int, end: int, most: int) -> tuple[Sequence[Event], int]:
        """At most about `most` events with `first` <= number < `end`, in order, and where to read on: `end` after the
        last. What is gone, or can't be read, is left out. Raises `StorageError`."""

    async def keep(self, name: str, firsts: Mapping[int, int] | None) -> None:
        """The channel deletes nothing from these numbers on until `keep` is called again: a replay of this name needs
        it. None: it needs nothing any more. The channel remembers it over restarts. Raises `StorageError`."""

    async def keep_only(self, names: Container[str]) -> None:
        """Nothing is kept any more for replays of other names than these. Raises `StorageError`."""


@runtime_checkable
class TellsReplays(Protocol):
    """A service that sends past events again."""

    def replays_of(self, trigger: str, event: Event) -> Sequence[str]:
        """What its running replays do with an event for this trigger, a sentence each. An event without a position is
        an example, for all like it."""


class RewindRefused(Exception):
    """A subscription can't be set back as things are. Its text says why, and what to do."""


@runtime_checkable
class Rewinds(Protocol):
    """A channel that can set a subscription back. All workers stand aside with it; the first one decides for all; then
    each does its part, and reads on. A worker that ends in between goes back when the subscription is attached again.
    """

    async def check_rewind(self, name: str, workers: int) -> None:
        """Raises `RewindRefused` if it is known already that a gateway with so many workers can't set it back, and
        `StorageError`."""

    async def stand_aside(self, name: str) -> None:
        """The subscription reads nothing more in this worker, and its place is stored, until `rewind` or `stay`. No
        attempt of it is under way. Raises `StorageError`."""

    async def settled(self, name: str) -> Callable[[int], bool]:
        """Whether the subscription is done with the event at a position, or never got it; in the partitions of other
        workers as it was last stored. Raises `StorageError`."""

    async def decide_rewind(self, name: str, firsts: Mapping[int, int]) -> None:
        """The subscription goes back to these numbers, by partition; where it is before them it stays. Once this
        returns, it does so in all of them, whatever ends. Raises `RewindRefused` if nothing was done, and
        `StorageError` if that could not be written, or nobody knows whether it was."""

    async def rewind(self, name: str, firsts: Mapping[int, int]) -> None:
        """Does what was decided in this worker, durably, and reads on. The subscription holds no event of these
        partitions at the moment. Raises `StorageError` if that could not be written: then call it again."""

    async def stay(self, name: str) -> None:
        """Reads on where the subscription is now, which may be further back, if another worker has decided that."""
