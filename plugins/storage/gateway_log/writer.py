"""The thread that writes. It is woken once for everything that came in one iteration of the event loop, takes all
waiting events, writes them to stable storage with one commit, and wakes the loop once for all of them. An idle writer
commits single events; under load, a commit has many."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from gateway_core.contract.component_errors import text_of_error
from gateway_core.contract.errors import Refused, StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Accepted

from .cursor import CursorChanges
from .deduplication import Deduplication
from .disk_reserve import RETRY_AFTER_S, DiskReserve, SyncFailed, is_full, sync_failed
from .shard import Checkpointer, Shard, sequence_rows

log = logging.getLogger("tidegate.log")

MAX_EVENTS = 4096
MAX_GATHERED = 128


class Unit:
    """Events of one append, written all or none. Of a log that deduplicates, after the commit: `firsts`, if some of
    them are duplicates, has for each the position of the first, else 0; `refused` says why none was written."""

    firsts: list[int] | None
    refused: Refused | None

    __slots__ = ("again", "attributes", "done", "events", "firsts", "received_ns", "refused", "size")

    def __init__(
        self,
        events: Sequence[Event],
        attributes: list[bytes],
        size: int,
        received_ns: int,
        done: Accepted,
        again: bool = False,
    ) -> None:
        self.events = events
        self.attributes = attributes
        self.size = size
        self.received_ns = received_ns
        self.done = done
        self.again = again


class Commit:
    """The result of one commit, for the event loop: `shard` is the main one, `first` the sequence of its first event,
    `error` the main shard's error, and `failed` the changes that were not written."""

    __slots__ = ("error", "failed", "first", "shard", "units")

    def __init__(
        self, shard: int, units: list[Unit], failed: list[CursorChanges], first: int, error: StorageError | None
    ) -> None:
        self.shard = shard
        self.units = units
        self.failed = failed
        self.first = first
        self.error = error


Job = Callable[[], Any]


class Writer:
    """Owns the shards of this process; events are appended to `shards[0]`.

    `committed` is called on the loop after every attempted commit, `damaged` (shard, why) when one fails because the
    file is damaged.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        reserve: DiskReserve,
        loop: AbstractEventLoop,
        committed: Callable[[Commit], None],
        damaged: Callable[[int, str], None],
        deduplication: Deduplication | None = None,
    ) -> None:
        self._shards = {s.number: s for s in shards}
        self._main = shards[0]
        self._reserve = reserve
        self._loop = loop
        self._committed = committed
        self._damaged = damaged
        self._deduplication = deduplication
        self._refused: StorageError | None = None  # why nothing may be written any more
        self._queue: SimpleQueue[list[Unit] | CursorChanges | Job | None] = SimpleQueue()
        self._gathered: list[Unit] = []  # in this iteration of the loop
        self._rest: list[Unit] = []  # taken from the queue, but too much for one commit; the writer's thread's
        self._checkpointers = [Checkpointer(s, reserve, self._failed, self._too_long) for s in shards]
        self._worker = threading.Thread(target=self._run, name="tidegate-log", daemon=True)

    def append(self, unit: Unit) -> None:
        """Hands over a unit at the end of this iteration of the event loop, together with the others: a thread woken by
        the first one would compete with the loop for Python's lock, and make a small commit. Called on the loop."""
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append(unit)
        if len(self._gathered) >= MAX_GATHERED:
            self._hand_over()

    def put(self, item: CursorChanges | Job) -> None:
        """Queues an item after all units so far. Called on the loop."""
        self._hand_over()
        self._queue.put(item)

    def put_later(self, job: Job) -> None:
        """Queues a job that need not run after all units so far. May be called on any thread."""
        self._queue.put(lambda: job() if self._refused is None else None)

    def failed(self, error: BaseException) -> None:
        """A sync outside of this thread failed. May be called on any thread."""
        self.put_later(lambda: self._failed(error))

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        if gathered:
            self._queue.put(gathered)

    def start(self) -> None:
        """Starts to write."""
        self._worker.start()

    def close(self) -> None:
        """Writes what is queued, ends the thread and closes the shards. Blocks; call it in a thread."""
        self._queue.put(None)
        self._worker.join()
        for checkpointer in self._checkpointers:
            checkpointer.close()
        if self._deduplication is not None:
            self._deduplication.close()
        for shard in self._shards.values():
            shard.close() if self._refused is None else shard.abandon()
        self._reserve.keep()

    def _run(self) -> None:
        going = True
        while going:
            units: list[Unit] = []
            changes: list[CursorChanges] = []
            jobs: list[Job] = []
            going = self._gather(units, changes, jobs)
            if units or changes:
                commit, tried = self._committing(units, changes)
                self._tell(self._committed, commit)
                if tried:
                    self._do(partial(self._after, commit, changes))
            for job in jobs:
                self._do(job)
                self._do(self._look)

    def _gather(self, units: list[Unit], changes: list[CursorChanges], jobs: list[Job]) -> bool:
        """Waits for work and takes all there is, within limits. False at the end."""
        events = size = 0
        most = self._reserve.most_commit_bytes
        rest, self._rest = self._rest, []
        item = rest or self._queue.get()
        while True:
            if type(item) is list:
                for n, unit in enumerate(item):
                    events += len(unit.events)
                    size += unit.size
                    # checked before adding: a transaction that outgrows the ballast can't be copied on a full disk
                    if units and (events > MAX_EVENTS or size > most):
                        self._rest = item[n:]
                        return True
                    units.append(unit)
            elif item is None:
                return False
            elif isinstance(item, CursorChanges):
                changes.append(item)
            else:
                jobs.append(item)  # type: ignore[arg-type]
                return True  # a job sees everything that was put before it
            try:
                item = self._queue.get_nowait()
            except Empty:
                return True

    def _committing(self, units: list[Unit], changes: list[CursorChanges]) -> tuple[Commit, bool]:
        """`_commit`, even if it fails in an unexpected way, such as a lack of memory: this thread must keep running,
        and senders wait for an answer."""
        try:
            return self._commit(units, changes)
        except Exception as e:
            log.exception("the log's writer failed")
            error = StorageError(f"the log {self._main.path} can't be written: {text_of_error(e)}")
            return Commit(self._main.number, units, changes, self._main.next, error), True

    def _commit(self, units: list[Unit], changes: list[CursorChanges]) -> tuple[Commit, bool]:
        """The commit, and whether anything was tried."""
        if self._refused is not None:
            return Commit(self._main.number, units, changes, self._main.next, self._refused), False
        if self._reserve.full and not self._restart_wals():
            # a reader holds a write-ahead log: more writes would make it too long to be copied
            return Commit(self._main.number, units, changes, self._main.next, self._reserve.error()), False
        first = self._main.next
        failed: list[CursorChanges] = []
        if self._reserve.full:
            changes = _without_given_up(changes, failed)
        mine = [c for c in changes if c.shard == self._main.number]
        error: StorageError | None = None
        storing = bool(units) and not self._reserve.full and self._fits(units)
        if storing or mine:
            stored = units if storing else []
            if self._deduplication is None:
                rows = sequence_rows(self._main.number, first, stored)
                error = self._try(self._main, lambda: self._main.write(rows, _joined(mine)))
            else:
                error = self._try(self._main, partial(self._write_once, self._deduplication, first, stored, mine))
            if error is not None and self._reserve.full and mine:  # the space of the ballast is for the cursors
                mine = _without_given_up(mine, failed)
                error = self._try(self._main, lambda: self._main.write([], _joined(mine)))
            if error is not None:
                failed += mine
        if self._reserve.full or (units and not storing and error is None):
            error = self._reserve.error()
        # each shard is a transaction of its own: a fault of another shard does not affect the main one's events
        for change in changes:
            if change.shard != self._main.number:
                shard = self._shards[change.shard]
                if self._try(shard, partial(shard.write, [], change)) is not None:
                    failed.append(change)
        return Commit(self._main.number, units, failed, first, error), True

    def _write_once(self, keys: Deduplication, first: int, units: list[Unit], mine: list[CursorChanges]) -> None:
        if not units:
            self._main.write([], _joined(mine))
            return
        with keys.turn():
            rows = keys.rows(self._main.number, first, units)
            if rows or mine:
                self._main.write(rows, _joined(mine))
            keys.stored(units)

    def _fits(self, units: list[Unit]) -> bool:
        """Whether they may be written: a unit too large for one commit only if the disk has room for its copy, too."""
        size = sum(unit.size for unit in units)
        if size <= self._reserve.most_commit_bytes:
            return True
        self._restart_wals()
        return self._reserve.can_take(size)

    def _after(self, commit: Commit, changes: list[CursorChanges]) -> None:
        """Keeps the write-ahead logs short."""
        if self._reserve.full:
            self._restart_wals()
        else:
            self._checkpointers[0].wrote(0 if commit.error else sum(u.size for u in commit.units))
            if changes:  # possibly of other shards
                self._look()

    def _look(self) -> None:
        if self._refused is None:
            for checkpointer in self._checkpointers:
                checkpointer.look()

    def switch(self, shard: Shard, why: str, switched: Callable[[Shard], None]) -> None:
        """Appends to another shard from now on, since the previous one is damaged. `switched` is called on the loop,
        after all earlier commits. A job for `put`."""
        if self._deduplication is not None:
            self._deduplication.use(shard, time.time_ns())
        self._checkpointers.insert(0, Checkpointer(shard, self._reserve, self._failed, self._too_long))
        before, self._main = self._main, shard
        self._shards[shard.number] = shard
        before.freeze(why)
        self._tell(switched, shard)

    def freeze(self, number: int, why: str) -> None:
        """Stops writing this shard, which is not the main one. A job for `put`."""
        self._shards[number].freeze(why)

    def _suspect(self) -> None:
        """Reports files that turned out to be damaged."""
        for shard in self._shards.values():
            if shard.suspected and not shard.damaged:
                self._tell(self._damaged, shard.number, shard.suspected)

    def _restart_wals(self) -> bool:
        """While the disk is full, the write-ahead logs must stay small. False if a reader holds one."""
        free = True
        for shard in self._shards.values():
            try:
                free = shard.restart_wal() and free
            except (sqlite3.Error, SyncFailed) as e:
                if is_full(e) and self._reserve.release():
                    return self._restart_wals()
                free = False
                if sync_failed(e):
                    self._failed(e)
        return free

    def _too_long(self) -> None:
        self._reserve.full = True
        log.error(
            "%s (%s): events are refused until the write-ahead log can be shortened",
            self._reserve.error(),
            self._reserve.path.parent,
        )

    def _failed(self, error: BaseException) -> None:
        """A write failed. If the disk is full, frees the reserve; if the disk failed to store written data, stops
        writing."""
        if sync_failed(error) and self._refused is None:
            self._refused = StorageError(  # senders read it, so it names no folder
                "the gateway's disk failed to store written data: check it, then restart the gateway", RETRY_AFTER_S
            )
            for shard in self._shards.values():
                shard.syncs.failed = True
            log.critical(
                "%s (%s: %s). Until then, no event is accepted and no cursor saved; stored events are delivered, and"
                " delivered again after the restart",
                self._refused,
                self._main.path,
                error,
            )
        if is_full(error) and not self._reserve.full:
            self._reserve.release()
            log.error(
                "%s (%s): events are refused, deliveries continue; events that all triggers have processed are deleted,"
                " and events are accepted again when there is room",
                self._reserve.error(),
                self._reserve.path.parent,
            )
            self._restart_wals()

    def _try(self, shard: Shard, write: Job) -> StorageError | None:
        try:
            write()
        except Exception as e:
            self._failed(e)
            self._suspect()
            error = StorageError(f"the log {shard.path} can't be written: {e}")
            log.log(logging.DEBUG if self._reserve.full else logging.ERROR, "%s", error)
            return error
        return None

    def _do(self, job: Job) -> None:
        try:
            job()
        except (sqlite3.Error, SyncFailed) as e:
            log.error("the log %s can't be written: %s", self._main.path, e)
            self._failed(e)
            self._suspect()
        except Exception:
            log.exception("the log's writer failed")

    def _tell(self, call: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:  # the loop is gone, and so are the callers
            log.error("a commit came after the event loop's end")


def _joined(changes: list[CursorChanges]) -> CursorChanges | None:
    """All changes of one shard; the later ones win."""
    if len(changes) < 2:
        return changes[0] if changes else None
    cursors = {name: state for c in changes for name, state in c.cursors}
    given_up = [row for c in changes for row in c.given_up]
    begun = {name: at for c in changes for name, at in c.begun.items()}
    return CursorChanges(changes[-1].shard, changes[-1].routed, list(cursors.items()), given_up, begun)


def _without_given_up(changes: list[CursorChanges], failed: list[CursorChanges]) -> list[CursorChanges]:
    """The cursors alone. On a full disk the space of the ballast is for them; the rest waits among `failed`."""
    failed += [CursorChanges(c.shard, c.routed, (), c.given_up) for c in changes if c.given_up]
    return [c._replace(given_up=()) for c in changes]
