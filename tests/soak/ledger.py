"""The ledger of a soak: a byte per event in files that the sender, the subscriber and the dead letter map into memory.

What a process writes there outlives its `kill -9`, for the pages belong to the system. Each file has one writer.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.traffic import NEVER, kind_of

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_CHUNK = 1 << 22
SECONDS = 1 << 17
"""The longest run: a day and a half."""
PLACES = ("out", "proxied", "dead", "dead-proxied")
"""Where an event arrives: at the subscriber directly, at the one behind the proxy, at the dead letter of either."""


class Column:
    """Numbers of `width` bytes in a sparse file, by index."""

    def __init__(self, file: Path, length: int, packed: struct.Struct | None = None) -> None:
        self._packed = packed
        size = length * (packed.size if packed else 1)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(descriptor).st_size < size:
                os.ftruncate(descriptor, size)
            self.map = mmap.mmap(descriptor, 0)
        finally:
            os.close(descriptor)

    def get(self, index: int) -> int:
        """The number there."""
        if self._packed is None:
            return self.map[index]
        number: int = self._packed.unpack_from(self.map, index * self._packed.size)[0]
        return number

    def put(self, index: int, number: int) -> None:
        """Writes a number."""
        if self._packed is None:
            self.map[index] = number
        else:
            self._packed.pack_into(self.map, index * self._packed.size, number)

    def add(self, index: int, most: int = 255) -> int:
        """Counts one more; returns how many there were. It stops at `most`."""
        before = self.get(index)
        if before < most:
            self.put(index, before + 1)
        return before


class Arrivals:
    """What arrived of a route at a place: how often each event, and how many arrived again in each second."""

    def __init__(self, folder: Path, route: str, place: str, capacity: int) -> None:
        name = f"{route}.{place}"
        self.times = Column(folder / name, capacity)
        self.again = Column(folder / f"{name}.again", SECONDS, _U32)
        """Arrivals beyond the first, of events that the sender sent once, by second."""
        self._totals = Column(folder / f"{name}.total", 2, _U64)

    def arrived(self, number: int, sent_again: bool, second: int) -> None:
        """Counts an arrival; the event was sent more than once if `sent_again`."""
        if self.times.add(number) == 0:
            self._totals.put(0, self._totals.get(0) + 1)
        elif sent_again:
            self._totals.put(1, self._totals.get(1) + 1)
        else:
            self.again.add(min(second, SECONDS - 1), 2**32 - 1)

    @property
    def first(self) -> int:
        """How many events have arrived."""
        return self._totals.get(0)

    @property
    def sent_again(self) -> int:
        """How many arrivals beyond the first there were of events that the sender had sent again."""
        return self._totals.get(1)


class Account:
    """One route's events."""

    def __init__(self, folder: Path, route: str, capacity: int) -> None:
        self.capacity = capacity
        self.attempts = Column(folder / f"{route}.attempts", capacity)
        self.accepted = Column(folder / f"{route}.accepted", capacity)
        self._totals = Column(folder / f"{route}.total", 2, _U64)
        self.at = {place: Arrivals(folder, route, place, capacity) for place in PLACES}

    @property
    def numbered(self) -> int:
        """How many numbers were given out: they begin with 0."""
        return self._totals.get(0)

    def take(self, count: int) -> range:
        """Gives out numbers. Raises `OverflowError` if the ledger is full."""
        begin = self.numbered
        if begin + count > self.capacity:
            raise OverflowError(f"the ledger has room for {self.capacity} events of a route")
        self._totals.put(0, begin + count)
        return range(begin, begin + count)

    def accept(self, number: int) -> None:
        """Somebody has said yes to this event."""
        if self.accepted.add(number) == 0:
            self._totals.put(1, self._totals.get(1) + 1)

    @property
    def said_yes(self) -> int:
        """How many events were accepted."""
        return self._totals.get(1)

    @property
    def open(self) -> int:
        """About how many accepted events are on their way."""
        return self.said_yes - self.at["out"].first - self.at["dead"].first

    def check(self, proxied: bool, most: int = 20) -> Verdict:
        """Compares what was accepted with what arrived: every event, every place."""
        verdict = Verdict()
        end = self.numbered
        for begin in range(0, end, _CHUNK):
            some = range(begin, min(end, begin + _CHUNK))
            for number in self._faulty(some, proxied, verdict):
                if len(verdict.lost) < most:
                    verdict.lost.append(number)
        return verdict

    def _faulty(self, some: range, proxied: bool, verdict: Verdict) -> Iterator[int]:
        accepted = self.accepted.map[some.start : some.stop]
        places = {place: self.at[place].times.map[some.start : some.stop] for place in PLACES}
        out, dead = places["out"], places["dead"]
        behind, dead_behind = places["proxied"], places["dead-proxied"]
        for i, number in enumerate(some):
            never = number % NEVER == 0
            if accepted[i] and not (dead[i] if never else out[i]):
                verdict.missing += 1
                yield number
            if (never and out[i]) or (not never and dead[i]):
                verdict.misplaced += 1
            if not proxied:
                continue
            wanted = kind_of(number % 5) == "proxied"
            if wanted and accepted[i] and not (dead_behind[i] if never else behind[i]):
                verdict.missing += 1
                yield number
            if (not wanted and (behind[i] or dead_behind[i])) or (
                wanted and ((never and behind[i]) or (not never and dead_behind[i]))
            ):
                verdict.misplaced += 1


@dataclass(slots=True)
class Verdict:
    """`missing` of the accepted events (`lost` names some), and `misplaced`: at a subscriber that rejects them or that
    did not want them, or in the dead letter for no reason."""

    missing: int = 0
    misplaced: int = 0
    lost: list[int] = field(default_factory=list)


class Control:
    """What the conductor tells the sender, the subscriber and the dead letter: a byte each."""

    RUN, PAUSE, END = 0, 1, 2
    WELL, REFUSE, SILENT, DROP = 0, 1, 2, 3
    """A subscriber's moods: it answers; with 503; never; or it takes the event and cuts the connection."""

    def __init__(self, folder: Path) -> None:
        self._bytes = Column(folder / "control", 16)

    @property
    def sender(self) -> int:
        return self._bytes.get(0)

    @sender.setter
    def sender(self, state: int) -> None:
        self._bytes.put(0, state)

    def mood(self, receiver: int) -> int:
        """How this receiver is."""
        return self._bytes.get(1 + receiver)

    def set_mood(self, receiver: int, mood: int) -> None:
        """How this receiver is from now on."""
        self._bytes.put(1 + receiver, mood)
