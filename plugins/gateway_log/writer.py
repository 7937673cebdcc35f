"""The thread that writes. It is woken once for all that came in one round of the event loop, takes whatever waits,
brings it into stable storage with one commit, and wakes the loop once for all of it: a commit when nothing else waits
is for one event, one under load for many."""

from __future__ import annotations

import logging
import sqlite3
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from gateway_core.errors import StorageError
from gateway_core.event import Event
from gateway_core.interfaces import Accepted

from .places import Changes
from .room import RETRY_AFTER_S, Room, is_full, sync_failed
from .shard import Shard, sequence_rows
from .wal import Checkpointer

log = logging.getLogger("tidegate.log")

MOST_EVENTS = 4096
MOST_BYTES = 8 * 1024 * 1024
MOST_GATHERED = 128


class Unit:
    """Events that came together: one append, written all or none."""

    __slots__ = ("attributes", "done", "events", "received_ns", "size")

    def __init__(
        self, events: Sequence[Event], attributes: list[bytes], size: int, received_ns: int, done: Accepted
    ) -> None:
        self.events = events
        self.attributes = attributes
        self.size = size
        self.received_ns = received_ns
        self.done = done


class Commit:
    """What one commit was, for the event loop: `shard` is the main one, `first` the sequence of its first event,
    `error` is that of the main shard, `failed` has the changes that were not written."""

    __slots__ = ("error", "failed", "first", "shard", "units")

    def __init__(
        self, shard: int, units: list[Unit], failed: list[Changes], first: int, error: StorageError | None
    ) -> None:
        self.shard = shard
        self.units = units
        self.failed = failed
        self.first = first
        self.error = error


Job = Callable[[], Any]


class Writer:
    """Owns the shards of this process: `shards[0]` is the one that events are appended to.

    `committed` is called on the loop after every commit that was tried, `damaged` (shard, why) when one fails because
    the file is damaged.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        room: Room,
        loop: AbstractEventLoop,
        committed: Callable[[Commit], None],
        damaged: Callable[[int, str], None],
    ) -> None:
        self._shards = {s.number: s for s in shards}
        self._main = shards[0]
        self._room = room
        self._loop = loop
        self._committed = committed
        self._damaged = damaged
        self._refused: StorageError | None = None  # why nothing may be written any more
        self._queue: SimpleQueue[list[Unit] | Changes | Job | None] = SimpleQueue()
        self._gathered: list[Unit] = []  # in this round of the loop
        self._checkpointers = [Checkpointer(s, room, self._failed, self._too_long) for s in shards]
        self._thread = threading.Thread(target=self._run, name="tidegate-log", daemon=True)

    def append(self, unit: Unit) -> None:
        """Hands a unit over at the end of this round of the event loop, with the others of the round: a thread woken by
        the first of them would fight the loop for Python's lock, and make a small commit. On the loop."""
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append(unit)
        if len(self._gathered) >= MOST_GATHERED:
            self._hand_over()

    def put(self, item: Changes | Job) -> None:
        """Hands over what comes after all units so far. On the loop."""
        self._hand_over()
        self._queue.put(item)

    def put_later(self, job: Job) -> None:
        """Hands over a job that writes, and need not come after all units so far. On any thread."""
        self._queue.put(lambda: job() if self._refused is None else None)

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        if gathered:
            self._queue.put(gathered)

    def start(self) -> None:
        """Begins to write."""
        self._thread.start()

    def close(self) -> None:
        """Writes what waits, ends the thread and closes the shards. Blocks; call it in a thread."""
        self._queue.put(None)
        self._thread.join()
        for checkpointer in self._checkpointers:
            checkpointer.close()
        for shard in self._shards.values():
            shard.close() if self._refused is None else shard.abandon()
        self._room.keep()

    def _run(self) -> None:
        going = True
        while going:
            units: list[Unit] = []
            changes: list[Changes] = []
            jobs: list[Job] = []
            going = self._gather(units, changes, jobs)
            if units or changes:
                self._commit(units, changes)
            for job in jobs:
                self._do(job)
                self._look()

    def _gather(self, units: list[Unit], changes: list[Changes], jobs: list[Job]) -> bool:
        """Waits for something to do and takes all there is, within limits. False at the end."""
        events = size = 0
        item = self._queue.get()
        while True:
            if type(item) is list:
                units += item
                for unit in item:
                    events += len(unit.events)
                    size += unit.size
                if events >= MOST_EVENTS or size >= MOST_BYTES:
                    return True
            elif item is None:
                return False
            elif isinstance(item, Changes):
                changes.append(item)
            else:
                jobs.append(item)  # type: ignore[arg-type]
                return True  # a job sees everything that was put before it
            try:
                item = self._queue.get_nowait()
            except Empty:
                return True

    def _commit(self, units: list[Unit], changes: list[Changes]) -> None:
        if self._refused is not None:
            self._tell(self._committed, Commit(self._main.number, units, changes, self._main.next, self._refused))
            return
        if self._room.full and not self._fold():
            # a reader holds a write-ahead log: what is written now would make it longer than the disk can copy
            self._tell(self._committed, Commit(self._main.number, units, changes, self._main.next, self._room.error()))
            return
        first = self._main.next
        mine = [c for c in changes if c.shard == self._main.number]
        failed: list[Changes] = []
        error: StorageError | None = None
        if (units and not self._room.full) or mine:
            rows = [] if self._room.full else sequence_rows(self._main.number, first, units)
            error = self._try(self._main, lambda: self._main.write(rows, _joined(mine)))
            if error is not None and self._room.full and mine:  # what the ballast kept is for the places
                error = self._try(self._main, lambda: self._main.write([], _joined(mine)))
            if error is not None:
                failed += mine
        if self._room.full:
            error = self._room.error()
        # each shard is a transaction of its own: the fault of another one does not undo the events of the main one
        for change in changes:
            if change.shard != self._main.number:
                shard = self._shards[change.shard]
                if self._try(shard, partial(shard.write, [], change)) is not None:
                    failed.append(change)
        self._tell(self._committed, Commit(self._main.number, units, failed, first, error))
        if self._room.full:
            self._fold()
        else:
            self._checkpointers[0].wrote(0 if error else sum(u.size for u in units))
            self._look()

    def _look(self) -> None:
        if self._refused is None:
            for checkpointer in self._checkpointers:
                checkpointer.look()

    def switch(self, shard: Shard, why: str, switched: Callable[[Shard], None]) -> None:
        """Appends to another shard from now on: the one before is damaged. `switched` is called on the loop, after all
        commits before. A job for `put`."""
        before, self._main = self._main, shard
        self._shards[shard.number] = shard
        self._checkpointers.insert(0, Checkpointer(shard, self._room, self._failed, self._too_long))
        before.freeze(why)
        self._tell(switched, shard)

    def freeze(self, number: int, why: str) -> None:
        """Writes nothing more to this shard, which is not the main one. A job for `put`."""
        self._shards[number].freeze(why)

    def _suspect(self) -> None:
        """Tells of files that turned out to be damaged."""
        for shard in self._shards.values():
            if shard.suspected and not shard.damaged:
                self._tell(self._damaged, shard.number, shard.suspected)

    def _fold(self) -> bool:
        """While the disk is full no write-ahead log may take more of it than it must. False if a reader holds one."""
        free = True
        for shard in self._shards.values():
            try:
                free = shard.fold() and free
            except sqlite3.Error as e:
                if is_full(e) and self._room.release():
                    return self._fold()
                free = False
        return free

    def _too_long(self) -> None:
        self._room.full = True
        log.error("%s: events are refused until the write-ahead log can be shortened", self._room.error())

    def _failed(self, error: BaseException) -> None:
        """A write failed. Where the disk is full, makes room for what must go on; where it did not take what was
        written, nothing is written any more."""
        if sync_failed(error) and self._refused is None:
            self._refused = StorageError(
                f"the disk of {self._main.path} failed to take what was written ({error}): check the disk, then restart"
                " the gateway",
                RETRY_AFTER_S,
            )
            log.critical(
                "%s. Until then no event is taken and no cursor kept; what is there is delivered, and delivered again"
                " after the restart",
                self._refused,
            )
        if is_full(error) and not self._room.full:
            self._room.release()
            log.error(
                "%s: events are refused, deliveries go on; events that all triggers have dealt with are deleted now,"
                " and events are taken again when there is room",
                self._room.error(),
            )
            self._fold()

    def _try(self, shard: Shard, write: Job) -> StorageError | None:
        try:
            write()
        except Exception as e:
            self._failed(e)
            self._suspect()
            error = StorageError(f"the log {shard.path} can't be written: {e}")
            log.log(logging.DEBUG if self._room.full else logging.ERROR, "%s", error)
            return error
        return None

    def _do(self, job: Job) -> None:
        try:
            job()
        except sqlite3.Error as e:
            log.error("the log %s can't be written: %s", self._main.path, e)
            self._failed(e)
            self._suspect()
        except Exception:
            log.exception("the log's writer failed in %r", job)

    def _tell(self, call: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:  # the loop is gone; so are all who waited
            log.error("a commit came after the event loop's end")


def _joined(changes: list[Changes]) -> Changes | None:
    """All changes of one shard; the later wins."""
    if len(changes) < 2:
        return changes[0] if changes else None
    places = {name: place for c in changes for name, place in c.places}
    return Changes(changes[-1].shard, changes[-1].routed, list(places.items()))
