"""How many denied attempts are written one by one. Who is refused must not be able to fill the disk, or to push older
lines out of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

BURST = 100
EVERY_S = 10.0
"""After a burst, one attempt in this time is written; the others are counted."""
SUMMARY_S = 60.0
"""How often the counts are written."""
_MOST_KEYS = 500
_MOST_ADDRESSES = 20
_OTHER = "other"


@dataclass(slots=True)
class Summary:
    """Attempts that were only counted, of one kind."""

    since_ns: int
    count: int = 0
    addresses: Counter[str] = field(default_factory=Counter)

    def shown(self) -> dict[str, int]:
        """The addresses with most attempts; the rest as "other"."""
        most = dict(self.addresses.most_common(_MOST_ADDRESSES))
        rest = self.count - sum(most.values())
        return {**most, **({_OTHER: most.get(_OTHER, 0) + rest} if rest else {})}


class Denials:
    """Decides which attempts are written, and counts the others."""

    def __init__(self, burst: int = BURST, every_s: float = EVERY_S) -> None:
        self._burst = float(burst)
        self._every_s = every_s
        self._rooms = {known: (float(burst), 0.0) for known in (False, True)}  # and since when
        self.counted: dict[str, Summary] = {}

    def admits(self, now_s: float, *, known: bool) -> bool:
        """Whether an attempt at this time is written. Those of strangers take no room from those of callers who are
        `known`."""
        room, since_s = self._rooms[known]
        room = min(self._burst, room + (now_s - since_s) / self._every_s)
        admitted = room >= 1
        self._rooms[known] = (room - admitted, now_s)
        return admitted

    def count(self, what: str, where: str, now_ns: int) -> None:
        """Counts one that is not written."""
        summary = self.counted.get(what)
        if summary is None:
            what = what if len(self.counted) < _MOST_KEYS else _OTHER
            summary = self.counted.setdefault(what, Summary(now_ns))
        summary.count += 1
        known = where in summary.addresses or len(summary.addresses) < _MOST_KEYS
        summary.addresses[where if known else _OTHER] += 1

    def take(self) -> dict[str, Summary]:
        """What was counted since the last call, by what was attempted."""
        taken, self.counted = self.counted, {}
        return taken
