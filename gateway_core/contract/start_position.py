"""Where a new subscription begins in a channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

_NONE: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where a subscription begins that the channel does not know yet. Use `EARLIEST`, `LATEST`, `at_time` and
    `at_positions`; `kind` says which of them it is."""

    kind: Literal["earliest", "latest", "time", "positions"]
    time_ns: int = 0
    """For `time`: Unix time in nanoseconds."""
    positions: Mapping[int, int] = field(default_factory=lambda: _NONE, hash=False)
    """For `positions`: partition (the log: shard) -> the number of the first event in it, as in `Event.position` (see
    `split_position`)."""

    @classmethod
    def at_time(cls, time_ns: int) -> StartPosition:
        """The first event that the channel's store took at this time (Unix time in nanoseconds) or later; the end if
        there is none. A store that knows its times less exactly may begin earlier."""
        return cls("time", time_ns)

    @classmethod
    def at_positions(cls, positions: Mapping[int, int]) -> StartPosition:
        """The events at these positions, by partition. A position that is gone stands for the first one that is there,
        one beyond the end for the end. Partitions that are not named are read from their beginning, and named ones
        that do not exist are ignored."""
        return cls("positions", positions=MappingProxyType(dict(positions)))

    def within(self, partition: int, first: int, end: int) -> int:
        """For `positions`: where it begins in a partition whose first event is `first` and whose next will be `end`."""
        return min(max(self.positions.get(partition, first), first), end)

    def json(self) -> dict[str, Any]:
        """As JSON values, for `ReaderFeed.options`: `kind`, and `time_ns` or `positions` (partitions as text)."""
        if self.kind == "time":
            return {"kind": self.kind, "time_ns": self.time_ns}
        if self.kind == "positions":
            return {"kind": self.kind, "positions": {str(p): number for p, number in sorted(self.positions.items())}}
        return {"kind": self.kind}


EARLIEST = StartPosition("earliest")
"""The oldest event that the channel has."""
LATEST = StartPosition("latest")
"""The next event that is stored."""
