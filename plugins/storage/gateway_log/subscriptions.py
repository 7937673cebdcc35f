"""Who takes events from one worker's part of a log, and where each of them continues: a subscription at its cursors, a
reader at the offsets in its file."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from gateway_core.contract.event import position_of, split_position
from gateway_core.contract.interfaces import Filter
from gateway_core.contract.start_position import EARLIEST, LATEST, StartPosition

from . import again, late_starts, readers, rewinds, starts
from .cursor import CursorState
from .departures import Departures
from .feeder import Cursor, Feeder, LogFeed, Tail
from .folder import LogFolder
from .readers import LogReaderFeed
from .shard import Shard


class Subscriptions:
    """Attaches and detaches them. `departures` are those that a reload has detached."""

    def __init__(self, folder: LogFolder, shards: Sequence[Shard], tails: Sequence[Tail], feeder: Feeder) -> None:
        self.departures = Departures()
        self._folder = folder
        self._feeder = feeder
        self._tails = [*tails]
        self._known = {s.number: s.cursors for s in shards}  # of all that were ever attached
        self._given_up = {s.number: s.given_up for s in shards}  # see `Cursor.given_up`; as sequences
        self._routed = {s.number: s.routed for s in shards}
        self._lost = {s.number for s in shards if s.cursors_lost}
        self._reading: set[str] = set()
        self.rewound: list[rewinds.Open] = []
        """Rewinds that cursors have done, once these are durable."""

    def add(self, shard: Shard, tail: Tail) -> None:
        """Adds a new shard; the feeder has given it cursors."""
        self._tails.insert(0, tail)
        self._known[shard.number], self._routed[shard.number] = {}, shard.routed
        self._given_up[shard.number] = {}

    def attach(
        self, name: str, filter: Filter, make: Callable[[], LogFeed], *, start: StartPosition, live: bool
    ) -> LogFeed:
        """Adds a subscription, whose feed `make` makes, at its saved cursors if it has some. `live`: it is fed at once.
        Raises `StartError`."""
        begins = self._begins(name, start)
        back = self._back(name, begins)
        self.departures.back(name)
        self._detach_reader(name)
        feed = self._feeder.add(make())
        if start.kind == "time":
            feed.started_late = self._started_late(name, start, begins)
        for tail in self._tails:
            at = begins[tail.shard]
            cursor = self._feeder.add_cursor(feed, filter, tail, at, self._routed[tail.shard])
            self._gave_up(cursor, self._given_up[tail.shard].pop(name, ()))
            if live or back or tail.shard in self._lost:
                tail.mark(cursor)
            if live:
                self._feeder.wake(cursor)
        self.rewound += back
        if live:
            feed.begin()
        return feed

    def _begins(self, name: str, start: StartPosition) -> dict[int, CursorState | int]:
        """By shard: the saved cursor, or the first sequence for a new one."""
        found: dict[int, CursorState | int] = {}
        for tail in self._tails:
            if (known := self._known[tail.shard].get(name)) is not None:
                found[tail.shard] = known
            elif tail.shard in self._lost:
                found[tail.shard] = CursorState(tail.first)
            else:
                found[tail.shard] = starts.first_of(self._folder.path, tail.shard, start, tail.first, tail.end)
        return found

    def _started_late(self, name: str, start: StartPosition, begins: Mapping[int, CursorState | int]) -> str | None:
        """What was gone when the subscription began, by its shards on this worker."""
        folder, late = self._folder.path, None
        for tail in self._tails:
            at = begins[tail.shard]
            if not isinstance(at, int):
                late = late_starts.known(folder, name, tail.shard) or late
            elif (found := late_starts.found(folder, name, tail.shard, start.time_ns, at, tail.first)) is not None:
                late = found
        return late

    def attach_reader(self, name: str, filter: Filter, *, start: StartPosition) -> LogReaderFeed:
        """Adds a sink that reads the shards' files itself. Raises `StartError`."""
        self.departures.back(name)
        self._reading.add(name)
        self._feeder.watch(name, filter)
        folder = self._folder.path

        def new() -> dict[str, int]:
            if start == LATEST:
                return self._ends()
            begins, firsts = starts.firsts_of(folder, start), starts.firsts_of(folder, EARLIEST)
            if start.kind == "time":
                for shard, at in begins.items():
                    late_starts.found(folder, name, int(shard), start.time_ns, at, firsts[shard])
            return begins

        at = readers.attach(folder, name, new)
        feed = LogReaderFeed(name, folder, at, starts.firsts_of(folder, EARLIEST), self._ends, start)
        if start.kind == "time":
            found = (late_starts.known(folder, name, int(shard)) for shard in at)
            feed.started_late = next((text for text in found if text is not None), None)
        return feed

    def _ends(self) -> dict[str, int]:
        return self._folder.ends(self._tails)

    def leave_unused(self, *, readers_too: bool) -> None:
        """Detaches those of earlier runs that have not been attached, the readers only if `readers_too`: these belong
        to all workers."""
        for tail in self._tails:
            known = self._known[tail.shard]
            for name, state in known.items():
                if state.next is None and name not in self._feeder.feeds:
                    known[name] = CursorState(self._routed[tail.shard], state.pending)
                    tail.detach(name, known[name])
        if readers_too:
            for name in set(readers.names(self._folder.path)) - self._reading:
                if not name.startswith(again.KEPT):  # replays are not in the config
                    readers.detach(self._folder.path, name)

    def detach(self, name: str) -> None:
        """Ends a subscription or a reader. Its cursors are kept but no longer prevent the deletion of events, except in
        a reload."""
        if (feed := self._feeder.feeds.get(name)) is not None:
            for shard, cursor in feed.cursors.items():
                self._given_up[shard][name] = {split_position(p)[1] for p in cursor.given_up}
        states = self._feeder.detach(name)
        for shard, state in states.items():
            self._known[shard][name] = state
        if not self.departures.leave(name, states):
            self._detach_reader(name)

    def busy(self, name: str) -> bool:
        """Whether a read for this subscription is under way, which would move it on when it ends."""
        feed = self._feeder.feeds.get(name)
        return feed is not None and any(cursor.busy for cursor in feed.cursors.values())

    @staticmethod
    def _gave_up(cursor: Cursor, sequences: Iterable[int]) -> None:
        cursor.given_up.update(position_of(cursor.tail.shard, sequence) for sequence in sequences)

    @property
    def shards(self) -> list[int]:
        """The shards of this worker."""
        return [tail.shard for tail in self._tails]

    def feed(self, name: str) -> LogFeed | None:
        """The feed of a subscription, None if it has none here."""
        return self._feeder.feeds.get(name)

    def rewind(self, name: str, firsts: Mapping[int, int], given_up: Mapping[int, Iterable[int]]) -> None:
        """Sets its cursors in these shards back. `given_up` are the sequences after that, by shard, that it gave up."""
        cursors = self._feeder.feeds[name].cursors
        for shard, first in firsts.items():
            cursor = cursors[shard]
            self._gave_up(cursor, given_up.get(shard, ()))
            cursor.rewind(max(first, cursor.tail.first))
            self._feeder.wake(cursor)

    def _back(self, name: str, begins: dict[int, CursorState | int]) -> list[rewinds.Open]:
        """Changes saved cursors of a rewind that was decided, and that a worker did not do before it ended."""
        back = rewinds.left(self._folder.path, name, begins)
        for _, shard, first in back:
            if isinstance(state := begins[shard], CursorState):
                routed = self._routed[shard]
                following = min(first, routed if state.next is None else state.next)
                begins[shard] = CursorState(following, tuple(s for s in state.pending if s < following))
                gone = again.given_up(self._folder.path, name, {shard: following})
                self._given_up[shard].setdefault(name, set()).update(gone[shard])
        return back

    def hold(self, wanted: Container[str] | None) -> None:
        """See `gateway_core.contract.capabilities.Retains`. For other workers a reader is gone when its file moves, so
        the file stays until the end of the reload."""
        for name in self.departures.hold(wanted):
            self._detach_reader(name)

    def _detach_reader(self, name: str) -> None:
        if name in self._reading:
            self._reading.discard(name)
            readers.detach(self._folder.path, name)
