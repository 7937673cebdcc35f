"""Which messages a reader settled itself."""

from __future__ import annotations

from bisect import bisect_right

MOST = 4096


class SettledRanges:
    """Sequence numbers, as ranges. Those of the highest `MOST` ranges are kept: all there are, unless many clients
    share the stream's messages."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []  # the first number after each

    def add(self, number: int) -> None:
        """This one is settled."""
        starts, ends = self._starts, self._ends
        if ends and ends[-1] == number:  # in order, mostly
            ends[-1] += 1
            return
        at = bisect_right(starts, number)
        if at and number < ends[at - 1]:
            return
        before = at > 0 and ends[at - 1] == number
        after = at < len(starts) and starts[at] == number + 1
        if before and after:
            ends[at - 1] = ends.pop(at)
            del starts[at]
        elif before:
            ends[at - 1] += 1
        elif after:
            starts[at] = number
        else:
            starts.insert(at, number)
            ends.insert(at, number + 1)
            if len(starts) > MOST:
                del starts[0], ends[0]

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number)
        return at > 0 and number < self._ends[at - 1]

    def clear(self) -> None:
        """The numbers mean nothing any more."""
        self._starts.clear()
        self._ends.clear()

    def before(self, number: int) -> SettledRanges:
        """Those before this one."""
        found = SettledRanges()
        found._starts = [start for start in self._starts if start < number]
        found._ends = [min(end, number) for end in self._ends[: len(found._starts)]]
        return found
