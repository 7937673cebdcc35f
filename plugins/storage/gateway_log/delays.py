"""Events that a subscription gets later than they come.

An event that is not due is kept in a file of its own (`delay_file.py`). Once that is durable, it is acknowledged to the
cursor, which moves on: nothing waits in memory but what was just offered. When it is due, it is offered from there, and
removed once it is settled. A crash between two of these steps makes an event come twice, never not at all.

Events are due by the time of day of this machine. A clock that is set forward makes them due at once, one that is set
back makes them wait until it has come that far.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gateway_core.contract.capabilities import DeliveryState, NotDue
from gateway_core.contract.clock import Clock, Timer
from gateway_core.contract.errors import StorageError
from gateway_core.contract.event import Event, position_of, split_position
from gateway_core.contract.interfaces import Filter, Receiver
from gateway_core.contract.outcome import Outcome, Stage

from .delay_file import FIRST, DelayFile, Due, Step, Waiting, identify, path_of
from .feeder import Cursor, LogFeed
from .meta import remedy
from .reader import JSON_DATA, TRACE, TRACED, open_read_only, to_event
from .rows import Row, is_damage

log = logging.getLogger("tidegate.log")

T = TypeVar("T")
LOOK_S = 30.0
"""The longest wait between two looks at the clock, which may be set meanwhile."""
GATHER_S = 0.01
"""How long events and removals are gathered for one transaction."""
RETRY_S = 1.0
TELL_S = 60.0
ASK_S = 10.0
"""How long people's questions may block, in seconds."""
MOST_UNSAVED, MOST_BYTES = 2048, 16 * 1024 * 1024
"""How many events of a subscription, and how many bytes of them, may wait in memory to be kept."""
MOST_KEPT = 10_000
"""After a crash the log offers events again that were kept; so many of them are recognized."""
_STEP, _BYTES = 128, 1024 * 1024
_encode = msgspec.json.Encoder().encode

DueOf = Callable[[Event, int], int]
"""When an event is due, given when it was received (Unix time in nanoseconds). Raises `ValueError` with the reason if
it can't be told."""


class DelayFiles:
    """The files of the shards of one worker, used on a thread of their own. `shards` are created on demand."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.folder = folder
        self._loop = loop
        self._pool: ThreadPoolExecutor | None = None
        self._files: dict[int, DelayFile] = {}
        self._closed = False

    def open(self, shards: Sequence[int]) -> None:
        """Opens those that exist. Raises `StartError`."""
        for shard in shards:
            if path_of(self.folder, shard).exists():
                self.file(shard)

    @property
    def shards(self) -> Sequence[int]:
        """The shards that have a file."""
        return tuple(self._files)

    def file(self, shard: int) -> DelayFile:
        """The file of a shard, created if it is missing. Raises `StartError`."""
        if (found := self._files.get(shard)) is None:
            found = self._files[shard] = DelayFile(path_of(self.folder, shard), position_of(shard, 0))
        return found

    def run(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        """Does work on the thread, and calls `then` on the loop with its result, or with the exception."""
        if self._closed:
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "tidegate-log-delays")
        future = self._loop.run_in_executor(self._pool, work)
        future.add_done_callback(partial(self._done, then))

    @staticmethod
    def _done(then: Callable[[T | BaseException], None], future: asyncio.Future[T]) -> None:
        if not future.cancelled():
            error = future.exception()
            then(future.result() if error is None else error)

    def peek(self, shard: int, name: str, sequence: int) -> int | None:
        """When an event that waits is due (Unix time in nanoseconds); None if it does not wait, or if that can't be
        told at once. On the loop."""
        if shard not in self._files:
            return None
        with suppress(sqlite3.Error), closing(open_read_only(path_of(self.folder, shard))) as connection:
            query = "SELECT due_ns FROM events WHERE name = ? AND sequence = ?"
            found = connection.execute(query, (name, sequence)).fetchone()
            return None if found is None else int(found[0])
        return None

    def kept(self, shard: int, name: str, first: int) -> dict[int, int]:
        """The numbers (`identify`) of the oldest events that wait, by sequence from `first`. On the loop: it blocks
        for a moment. Empty if they can't be read."""
        if shard not in self._files:
            return {}
        query = f"SELECT sequence, ident FROM events WHERE name = ? AND sequence >= ? LIMIT {MOST_KEPT}"
        with suppress(sqlite3.Error), closing(open_read_only(path_of(self.folder, shard))) as connection:
            return dict(connection.execute(query, (name, first)).fetchall())
        return {}

    def count(self, name: str) -> int:
        """How many events wait for a subscription. On the thread."""
        return sum(file.count(name) for file in tuple(self._files.values()))

    def ask(self, work: Callable[[], T]) -> T:
        """The result of work on the thread. It blocks. Raises `StorageError`."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "tidegate-log-delays")
        try:
            return self._pool.submit(work).result(ASK_S)
        except (sqlite3.Error, TimeoutError, RuntimeError) as e:
            raise StorageError(f"events that wait until they are due can't be read or changed: {e}") from e

    def close(self) -> None:
        """Finishes what was asked for. It blocks."""
        self._closed = True
        if self._pool is not None:
            self._pool.shutdown()
        for file in self._files.values():
            file.close()
        self._files.clear()


class _Part:
    """What waits in one shard for one subscription."""

    __slots__ = ("asked", "bytes", "events", "mark", "next_ns", "unsaved")

    def __init__(self) -> None:
        self.unsaved: list[Waiting] = []
        self.events = self.bytes = 0  # not kept yet
        self.mark: Due = FIRST  # everything up to it was offered
        self.next_ns: int | None = None  # when the first one after it is due, as far as known
        self.asked = False


class DelayedFeed(LogFeed):
    """A feed whose events may be due later."""

    __slots__ = (
        "_clock", "_due_of", "_ended", "_files", "_gathering", "_gone", "_kept", "_out", "_parts", "_receive",
        "_reject", "_skip", "_stuck", "_timer", "_timer_ns", "_told", "_waiting", "fault",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        filter: Filter,
        receiver: Receiver,
        wake: Callable[[Cursor], None],
        due_of: DueOf | None,
        files: DelayFiles,
        clock: Clock,
    ) -> None:
        super().__init__(name, filter, self._take, wake)
        self._receive, self._reject = receiver.offer, receiver.reject
        self._due_of = due_of
        self._files = files
        self._clock = clock
        self._parts: dict[int, _Part] = {}
        self._kept: dict[int, dict[int, int]] = {}  # by shard, when the feed began, see `_is_kept`
        self._out: dict[int, int] = {}  # positions offered from a file and not settled, and when they were due
        self._gone: list[int] = []  # settled, and to be removed
        self._skip: set[int] = set()  # settled or cancelled, and perhaps not removed yet
        self._told = float("-inf")
        self.fault: str | None = None
        """Why events can't be kept or read; see `gateway_core.contract.capabilities.Faulty`."""
        self._waiting = 0
        self._gathering = self._stuck = self._ended = False
        self._timer: Timer | None = None
        self._timer_ns = 0

    def begin(self) -> None:
        """Looks for what waits from earlier."""
        for shard in self._files.shards:
            self._parts.setdefault(shard, _Part())
        if self._parts:
            self._files.run(lambda: self._files.count(self.name), self._counted)

    def _failed(self, error: BaseException) -> None:
        """Work with the files failed; it is tried again."""
        self.fault = f"events that wait until they are due can't be kept or read: {error}"
        if is_damage(error):
            self.fault += f"; repair the file with {remedy(self._files.folder)} while the gateway is stopped"
        now = self._clock.monotonic()
        if now - self._told >= TELL_S:
            self._told = now
            log.error("%s: %s", self.name, self.fault)

    def _counted(self, found: int | BaseException) -> None:
        if not self.attached:
            return
        if isinstance(found, BaseException):
            self._failed(found)
            self._clock.call_later(RETRY_S, self.begin)
            return
        # not added: the files are used one job after another, and what was kept before this one has been counted
        self._waiting = found
        for shard in self._parts:
            self._look(shard)

    # -- from the cursor --------------------------------------------------------------------------------------------

    def _is_kept(self, event: Event) -> bool:
        """Whether an event of the log is in the file already: after a crash, when its cursor was not written yet. After
        a power failure the log may give its position to another event."""
        shard, sequence = split_position(event.position)
        kept = self._kept.get(shard)
        if kept is None:
            kept = self._kept[shard] = self._files.kept(shard, self.name, self.cursors[shard].floor())
        return bool(kept) and kept.pop(sequence, None) == identify(_encode(event.attributes))

    def _take(self, event: Event) -> bool:
        if self._is_kept(event):
            super().ack(event.position)
            return True
        if self._due_of is None:
            return self._receive(event)
        now = self._clock.now_ns()
        received = event.received_ns or now
        try:
            due = self._due_of(event, received)
        except ValueError as e:
            self._reject(event, Outcome(False, stage=Stage.DELAY, reason=str(e)))
            return True
        if due <= now:
            return self._receive(event)
        shard, sequence = split_position(event.position)
        part = self._parts.setdefault(shard, _Part())
        if part.events >= MOST_UNSAVED or part.bytes >= MOST_BYTES:
            return False
        waiting = Waiting(_row(sequence, event, received), due)
        part.events += 1
        part.bytes += _size(waiting)
        part.unsaved.append(waiting)
        self._gather()
        return True

    def _gather(self) -> None:
        if not self._gathering:
            self._gathering = True
            self._clock.call_later(GATHER_S, self._flush)

    def _flush(self) -> None:
        self._gathering = False
        gone, self._gone = self._gone, []
        if gone:
            self._files.run(partial(self._remove, gone), partial(self._removed, gone))
        for shard, part in self._parts.items():
            if part.unsaved and self.attached and not self._ended:
                saving, part.unsaved = part.unsaved, []
                self._files.run(lambda s=shard, w=saving: self._files.file(s).add(self.name, w),  # type: ignore[misc]
                                partial(self._saved, shard, saving))  # fmt: skip

    def _saved(self, shard: int, saved: list[Waiting], new: int | BaseException) -> None:
        if not self.attached:
            return  # the cursor has them
        part = self._parts[shard]
        if isinstance(new, BaseException):
            self._failed(new)
            part.unsaved = [*saved, *part.unsaved]
            self._gathering = True
            self._clock.call_later(RETRY_S, self._flush)
            return
        self.fault = None
        self._waiting += new
        part.events -= len(saved)
        part.bytes -= sum(map(_size, saved))
        for waiting in saved:
            super().ack(position_of(shard, waiting.row.sequence))
        first = min((waiting.due_ns, waiting.row.sequence) for waiting in saved)
        part.next_ns = first[0] if part.next_ns is None else min(part.next_ns, first[0])
        if first <= part.mark:
            part.mark = (first[0], first[1] - 1)
        self._wake_at(first[0])
        if self.full:
            super().resume()

    # -- when they are due ------------------------------------------------------------------------------------------

    def _wake_at(self, due_ns: int) -> None:
        if self._ended:
            return
        now = self._clock.now_ns()
        if self._timer is not None:
            if due_ns >= self._timer_ns:
                return
            self._timer.cancel()
        self._timer_ns = due_ns
        # the timer may run a little early by this clock, as the two are not the same
        self._timer = self._clock.call_later(min(LOOK_S, max(0.0, (due_ns - now) / 1e9) + 0.001), self._woken)

    def _woken(self) -> None:
        self._timer = None
        for shard in self._parts:
            self._look(shard)

    def _look(self, shard: int) -> None:
        part = self._parts[shard]
        if part.asked or self._stuck or self._ended or shard not in self._files.shards:
            return
        part.asked = True
        now, mark = self._clock.now_ns(), part.mark
        self._files.run(
            lambda: self._files.file(shard).due(self.name, mark, now, _STEP, _BYTES), partial(self._found, shard, mark)
        )

    def _found(self, shard: int, mark: Due, answer: Step | BaseException) -> None:
        part = self._parts[shard]
        part.asked = False
        if self._ended:
            return
        if isinstance(answer, BaseException):
            self._failed(answer)
            self._clock.call_later(RETRY_S, self._look, shard)
            return
        self.fault = None
        if part.mark != mark:  # an earlier one came meanwhile
            self._look(shard)
            return
        for row, due_ns in answer.found:
            position = position_of(shard, row.sequence)
            if position not in self._out and position not in self._skip:
                self._out[position] = due_ns
                if not self._offered(to_event(shard, row)):
                    self._out.pop(position, None)
                    part.next_ns = due_ns
                    self._stuck = True
                    return
            part.mark = (due_ns, row.sequence)
        if answer.last is not None:
            part.mark = answer.last
            self._look(shard)
        else:
            part.next_ns = answer.next_ns
            if answer.next_ns is not None:
                self._wake_at(answer.next_ns)

    def _offered(self, event: Event) -> bool:
        try:
            return self._receive(event)
        except Exception:
            log.exception("subscription %s failed to take an event", self.name)
            self._clock.call_later(RETRY_S, self.resume)
            return False

    # -- from the subscription --------------------------------------------------------------------------------------

    def ack(self, position: int) -> None:
        """The event at this position has been processed."""
        if self._out.pop(position, None) is not None:
            self._skip.add(position)
            self._gone.append(position)
            self._gather()
        else:
            super().ack(position)

    def _remove(self, positions: Sequence[int]) -> bool:
        """On the thread."""
        by_shard: dict[int, list[int]] = {}
        for position in positions:
            shard, sequence = split_position(position)
            by_shard.setdefault(shard, []).append(sequence)
        for shard, sequences in by_shard.items():
            self._files.file(shard).remove((self.name, sequence) for sequence in sequences)
        return True

    def _removed(self, positions: list[int], done: bool | BaseException) -> None:
        if isinstance(done, BaseException):
            self._failed(done)
            self._gone += positions
            self._gathering = True
            self._clock.call_later(RETRY_S, self._flush)
        else:
            self._waiting -= len(positions)
            self._skip.difference_update(positions)

    def resume(self) -> None:
        """There is room again."""
        super().resume()
        if self._stuck:
            self._stuck = False
            for shard in self._parts:
                self._look(shard)

    def end(self) -> None:
        """No more events are offered; what is settled is still removed."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._gone:
            gone, self._gone = self._gone, []
            self._files.run(partial(self._remove, gone), lambda done: None)

    # -- for people -------------------------------------------------------------------------------------------------

    @property
    def delayed(self) -> int:
        """See `gateway_core.contract.capabilities.Delaying`."""
        return max(0, self._waiting - len(self._out) - len(self._skip))

    def oldest_due_ns(self) -> int | None:
        """See `gateway_core.contract.capabilities.Delaying`."""
        known = [*self._out.values(), *(part.next_ns for part in self._parts.values())]
        return min((due_ns for due_ns in known if due_ns), default=None)  # 0: somebody asked for it now

    def late_s(self) -> float:
        """See `gateway_core.contract.capabilities.Delaying`."""
        oldest = self.oldest_due_ns()
        return 0.0 if oldest is None else max(0.0, (self._clock.now_ns() - oldest) / 1e9)

    def due_ns(self, position: int) -> int | None:
        """See `gateway_core.contract.capabilities.Delaying`."""
        if (due := self._out.get(position)) is not None:
            return due
        shard, sequence = split_position(position)
        return None if position in self._skip else self._files.peek(shard, self.name, sequence)

    def delivery_state(self, position: int) -> DeliveryState | None:
        """Where an event is for this subscription (`gateway_core.contract.capabilities.TracksDeliveries`)."""
        if position in self._out:
            return "pending"
        if self.due_ns(position) is not None:
            return "delayed"
        return super().delivery_state(position)

    def not_due(self, after: tuple[int, int] | None, count: int) -> Sequence[NotDue]:
        """See `gateway_core.contract.capabilities.Delaying`."""

        def read() -> list[NotDue]:
            found = []
            for shard in self._files.shards:
                # of equal times, the positions of one shard are together
                at = FIRST if after is None else (after[0], after[1] - position_of(shard, 0))
                rows = self._files.file(shard).listed(self.name, at, count)
                found += [NotDue(w.due_ns, to_event(shard, w.row)) for w in rows]
            return sorted(found, key=lambda one: (one.due_ns, one.event.position))

        known = self._out.keys() | self._skip
        return [one for one in self._files.ask(read) if one.event.position not in known][:count]

    def due_within(self, seconds: Sequence[float]) -> Sequence[int]:
        """See `gateway_core.contract.capabilities.Delaying`."""
        bounds = [self._clock.now_ns() + int(s * 1e9) for s in seconds]
        files = self._files
        counts = files.ask(lambda: [files.file(shard).by_time(self.name, bounds) for shard in files.shards])
        return [sum(found) for found in zip(*counts, strict=True)] if counts else [0] * len(seconds)

    def cancel(self, id: str, source: str) -> int:
        """See `gateway_core.contract.capabilities.Delaying`."""
        found = self._positions(id, source)
        if found:
            self._skip.update(found)  # what was read before the removal must not be offered after it
            try:
                self._files.ask(lambda: self._remove(found))
            except StorageError:
                self._skip.difference_update(found)
                raise
            self._clock.call_later(RETRY_S, self._removed, found, True)
            for shard in self._files.shards:  # another one may be the first now
                self._look(shard)
        return len(found)

    def deliver_now(self, id: str, source: str) -> int:
        """See `gateway_core.contract.capabilities.Delaying`."""
        found = self._positions(id, source)
        for shard in self._files.shards:
            if mine := [split_position(p)[1] for p in found if split_position(p)[0] == shard]:
                self._files.ask(lambda s=shard, m=mine: self._files.file(s).hurry(self.name, m))  # type: ignore[misc]
                self._parts[shard].mark = FIRST
                self._look(shard)
        return len(found)

    def _positions(self, id: str, source: str) -> list[int]:
        files = self._files
        found = files.ask(
            lambda: [position_of(s, n) for s in files.shards for n in files.file(s).of(self.name, id, source)]
        )
        return [p for p in found if p not in self._out and p not in self._skip]


def _size(waiting: Waiting) -> int:
    return len(waiting.row.attributes) + len(waiting.row.data or b"")


def _row(sequence: int, event: Event, received_ns: int) -> Row:
    trace = event.trace
    flags = (JSON_DATA if event.json_data else 0) | (TRACED if trace is not None else 0)
    attributes: dict[str, Any] = event.attributes if trace is None else {**event.attributes, TRACE: trace}
    return Row(sequence, received_ns, flags, event.key, _encode(attributes), event.data)
