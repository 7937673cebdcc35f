"""One shard's file and its write-ahead log, as the writer thread uses them.

A checkpoint copies pages from the write-ahead log into the file and syncs both. A thread of its own does nearly all of
it, beside the appends. SQLite restarts the write-ahead log only when all of it has been copied, so the writer copies
the rest: the few pages that came meanwhile. A reader with an open transaction prevents the restart. The writer waits
for short reads; a long one is reported in the gateway's log.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeVar
from zlib import crc32

from gateway_core.contract.errors import StartError, StorageError
from gateway_core.contract.event import Event, position_of
from gateway_core.contract.private_files import no_room

from . import begins, damaged_cursors, epochs, given_up, meta, schema, wal_file
from .checksum import PRIME
from .cursor import CursorChanges, CursorState, floors, load_cursors, rewind_cursors, saving
from .disk_reserve import DiskReserve, SyncFailed, sync_failed
from .meta import ShardMeta
from .reader import JSON_DATA, TRACED, bounds_of, known_bounds, shard_file
from .rows import is_damage
from .schema import BUSY_MS, WAL_BYTES, open_shard, unusable
from .wal_file import file_bytes

log = logging.getLogger("tidegate.log")
T = TypeVar("T")

COLUMNS, KEYED_COLUMNS = 7, 8
_MOST_ROWS = 64
_ROW = "(?,?,?,nullif(?,''),?,?,?)"
# One statement for up to 64 rows: it gives up Python's lock four times for all of them, and may wait each time while
# the event loop is busy. `execute` would give it up one time more than `executemany`, to ask for the last row.
_INTO = "INSERT INTO events (sequence, received_ns, flags, key, attributes, data, checksum"
_COUNTS = (*range(1, _MOST_ROWS + 1), 256)
_INSERT = {n: f"{_INTO}) VALUES " + ",".join([_ROW] * n) for n in _COUNTS}
_KEYED_ROW = "(?,?,?,nullif(?,''),?,?,?,nullif(?,''))"
_INSERT_KEYED = {n: f"{_INTO}, deduplication) VALUES " + ",".join([_KEYED_ROW] * n) for n in _COUNTS}
_DELETE_ROWS, _DELETE_BYTES = 1000, 4 * 1024 * 1024
_RESTART_WAIT_MS = 250
_PAGE = 4096
_WAIT_S, _MOST_WAIT_S = 1.0, 30.0
"""How often the writer waits for readers while they hold the write-ahead log; less often if that does not help."""
_TELL_S = 300.0
_LOCK_S = 0.5
_LOOKS = 16
"""How often, at least, the size of the write-ahead log is checked between two copies under load."""


def lock_file(folder: Path, shard: int) -> Path:
    """The file that the process which writes a shard has locked."""
    return folder / f"shard-{shard:03d}.lock"


def database_files(folder: Path, shard: int) -> tuple[Path, Path, Path]:
    """What SQLite opens for a shard: its file, the write-ahead log and the index of that."""
    path = shard_file(folder, shard)
    return path, Path(f"{path}-wal"), Path(f"{path}-shm")


def lock(folder: Path, shard: int, within_s: float = _LOCK_S) -> int:
    """Makes sure that no other process writes this shard; returns the lock's file descriptor. Waits a moment for one
    that looks after a worker that died. Raises `StartError`."""
    path = lock_file(folder, shard)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise StartError(f"log: can't write in {folder}: {e.strerror}") from e
    until = time.monotonic() + within_s
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.02)
    except OSError as e:
        os.close(descriptor)
        raise StartError(
            f"log: {folder} is in use by another gateway (shard {shard}): stop it, or name another data directory"
        ) from e
    return descriptor


def expect_file(folder: Path, number: int, known: ShardMeta | None) -> None:
    """Looks at a shard's file without opening it. Raises `StartError` if a known file is missing or empty, or if its
    repair was interrupted."""
    path = shard_file(folder, number)
    if damaged_cursors.unfinished_repair(folder, number).exists():
        raise StartError(f"log: a repair of {path} was interrupted: run {meta.remedy(folder)} again")
    size = path.stat().st_size if path.exists() else -1
    if known is not None and size <= 0:
        raise _missing(folder, path, "is missing" if size < 0 else "is empty", known)


def _missing(folder: Path, path: Path, what: str, known: ShardMeta) -> StartError:
    return StartError(
        f"log: {path} {what}, although it had all events before {known.next}: restore it from a backup, or"
        f" continue without them with {meta.remedy(folder)}"
    )


class Syncs:
    """Several threads sync the write-ahead log: one after another, and none after one that `failed`. The system reports
    a failure once, and the next sync as a success, though the data is gone."""

    def __init__(self) -> None:
        self.failed = False
        self._lock = Lock()

    def run(self, work: Callable[[], T], most_s: float = -1) -> T | None:
        """Does work that syncs, and returns its result; None if other work took longer than `most_s` seconds (-1: waits
        for it). Raises `SyncFailed` after a sync that failed, and what the work raises."""
        if not self._lock.acquire(timeout=most_s):
            return None
        try:
            self.expect()
            return work()
        except Exception as e:
            self.failed = self.failed or sync_failed(e)
            raise
        finally:
            self._lock.release()

    def expect(self) -> None:
        """Raises `SyncFailed` after a sync that failed."""
        if self.failed:
            raise SyncFailed(errno.EIO, "an earlier sync failed")


class Shard:
    """A shard that this process owns. Only one thread at a time may use it. `reserve` is the reserved space of its
    disk, if the shard grows.

    A `damaged` shard (the reason, else empty) is only read: its file is no longer changed, and the cursors of its
    subscriptions go to a file beside it. `suspected` is damage that a write has found. After `syncs.failed` nobody
    knows what is in stable storage. `sealed`, if its rows have keys (`key_rows`), is the sequence before which all of
    these are on disk elsewhere.
    """

    def __init__(
        self, folder: Path, number: int, sync: Literal["full", "normal"], reserve: DiskReserve | None = None
    ) -> None:
        self.number = number
        self.path = shard_file(folder, number)
        self.suspected, self.syncs = "", Syncs()
        self._files: dict[str, tuple[int, int]] = {}
        self._columns, self._inserts = COLUMNS, _INSERT
        self.sealed: int | None = None
        self.cursors_lost = self._cursors_written = self._begun = False
        self.routed: int
        self.cursors: dict[str, CursorState]
        self.begins: dict[str, int] = {}
        self.given_up: dict[str, set[int]] = {}
        self.any_given_up = False
        self._connection: sqlite3.Connection
        self._lock = lock(folder, number)
        try:
            self.folder = self._folder = folder
            self._sync = sync
            known = meta.read(folder).shard(number)
            expect_file(folder, number, known)
            self.damaged = known.damaged if known else ""
            self.cursors_lost = known.cursors_lost if known else False
            if reserve is not None:
                reserve.begin()  # opening the file may need the space of the ballast
            if not self.damaged:
                try:
                    self._open(known, sync, reserve.wal_bytes if reserve else WAL_BYTES)
                except sqlite3.DatabaseError as e:
                    self.damaged = str(e)
            if self.damaged:
                self._open_damaged()
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self, known: ShardMeta | None, sync: Literal["full", "normal"], wal_bytes: int) -> None:
        """Raises `sqlite3.DatabaseError` only if the file is damaged."""
        if known is not None and known.running:
            self._after_crash()
        self._connection = open_shard(self.path, sync, wal_bytes)
        try:
            self.first, self.next = bounds_of(self._connection)
            self._expect_events(known)
            self.routed, self.cursors = load_cursors(self._connection)
            self.begins = begins.load(self._connection)
            self.any_given_up = given_up.any_rows(self._connection)
            self.given_up = given_up.ahead(self._connection, floors(self.cursors, self.routed))
            # a power failure may lose events that were not synced (sync: normal), but not their cursors
            self.routed = min(self.routed, self.next)
            for name in rewind_cursors(self.cursors, self.routed, self.first, self.next):
                log.error("%s: the cursor of %s is invalid: it gets all events again", self.path, name)
            self._remember_at_start()
            self._files = {path: _identity(path) for path in (str(self.path), f"{self.path}-wal")}
        except BaseException as e:
            self._connection.close()
            if isinstance(e, ValueError):
                raise sqlite3.DatabaseError(f"can't read the cursors of its triggers: {e}") from e
            if isinstance(e, sqlite3.Error) and not is_damage(e):
                raise unusable(self.path, e) from e
            raise

    def _open_damaged(self) -> None:
        """Writes nothing: the file may be all that is left."""
        meta.change(self._folder, lambda known: known.broken(self.number, self.damaged))
        self.first, self.next = known_bounds(self._folder, self.number)
        self.routed, self.cursors, self.cursors_lost = damaged_cursors.load(self._folder, self.number, self.first)
        self.routed = min(self.routed, self.next)

    def freeze(self, why: str) -> None:
        """Stops changing the file."""
        self.damaged = why
        self._connection.close()

    def _after_crash(self) -> None:
        """A file that was not closed has its newest events in the write-ahead log."""
        try:
            wal_file.store_again(self.path)
        except OSError as e:
            raise StartError(f"log: {self.path}-wal can't be written: {e.strerror}") from e
        if wal_file.is_missing(self.path):
            log.error(
                "%s-wal is missing, and the gateway did not shut down properly: the events that were accepted last may"
                " be lost; if you have the file, stop the gateway at once and restore it",
                self.path,
            )

    def _expect_events(self, known: ShardMeta | None) -> None:
        if known is not None and self.next < known.next:
            raise _missing(self._folder, self.path, f"ends before event {self.next}", known)

    def _remember_at_start(self) -> None:
        try:
            self.remember()
        except StartError as e:
            if not no_room(e.__cause__):  # a full disk must not prevent deliveries
                raise
            log.warning("%s", e)

    def remember(self, *, running: bool = True) -> None:
        """Records outside of the file, durably, how far it has come. Raises `StartError`. May be called on any
        thread."""
        if self.syncs.failed:
            return
        following = self.next
        try:
            if self._sync != "full":
                self.syncs.run(partial(wal_file.sync_wal, self.path))
            meta.remember(
                self._folder, self.number, self.first, following, cursors_written=self._cursors_written, running=running
            )
        except OSError as e:
            refused = StartError(f"log: can't write in {self._folder}: {e.strerror}")
            refused.__cause__ = e  # callers ask for it, and mypyc ignores the `from` below
            raise refused from e

    def write(self, rows: list[Any], changes: CursorChanges | None) -> None:
        """Writes rows (their columns one after another) and cursors to stable storage, all or none. Raises
        `sqlite3.Error`."""
        if self.damaged:
            self._write_cursors(rows, changes)
            return
        self._expect_files()
        try:
            self._write(rows, changes)
        except sqlite3.Error as e:
            self._suspect(e)
            raise

    def _expect_files(self) -> None:
        """SQLite keeps writing to files that were removed; that data would be lost with this process."""
        self.syncs.expect()
        for path, known in self._files.items():
            try:
                found = os.stat(path)
            except FileNotFoundError:
                found = None
            if found is None or (found.st_dev, found.st_ino) != known:
                raise StorageError(
                    f"{path} was {'replaced' if found else 'removed'} while the gateway ran: stop the gateway,"
                    " restore the log from a backup, and start it again"
                )

    def _write_cursors(self, rows: list[Any], changes: CursorChanges | None) -> None:
        if rows:
            raise sqlite3.DatabaseError("the file is damaged")
        if changes is not None:
            damaged_cursors.save(self._folder, changes)

    def _suspect(self, error: sqlite3.Error) -> None:
        if is_damage(error):
            self.suspected = str(error)

    def _write(self, rows: list[Any], changes: CursorChanges | None) -> None:
        if self._connection.in_transaction:  # a rollback failed: a script would commit what it left
            self._connection.execute("ROLLBACK")
        count = len(rows) // self._columns
        if changes is None and count in self._inserts and self._begun:
            self._connection.executemany(self._inserts[count], (rows,))  # a transaction by itself
            self.next += count
            return
        try:
            self._connection.executescript(saving(changes))
            if changes is not None and changes.given_up:
                given_up.save(self._connection, changes.given_up)
            if changes is not None and changes.begun:
                begins.save(self._connection, changes.begun)
            if count and not self._begun:
                epochs.begin(self._connection, self.first, self.next)
            self._insert(rows, count)
            self._connection.commit()
        except BaseException:
            self._roll_back()
            raise
        self.next += count
        self._begun = self._begun or count > 0
        self._cursors_written = self._cursors_written or changes is not None

    def _insert(self, rows: list[Any], count: int) -> None:
        at = 0
        while count:
            n = 256 if count >= 256 else min(count, _MOST_ROWS)
            self._connection.executemany(self._inserts[n], (rows[at : at + n * self._columns],))
            at += n * self._columns
            count -= n

    def key_rows(self) -> None:
        """From now on, rows have one column more: the key of `deduplication`, "" for none. Raises `StartError`."""
        if self.damaged:
            return
        try:
            schema.add_keys(self._connection)
        except sqlite3.Error as e:
            raise unusable(self.path, e) from e
        self._columns, self._inserts = KEYED_COLUMNS, _INSERT_KEYED

    def settle(self) -> None:
        """See `schema.settle`. Raises `sqlite3.Error`."""
        if not self.damaged:
            schema.settle(self._connection)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    # -- retention --------------------------------------------------------------------------------------------------

    def used_bytes(self) -> int:
        """The bytes in use in the file."""
        if self.damaged:
            return file_bytes(self.path)
        size, pages, free = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_size", "page_count", "freelist_count")
        )
        return int(size * (pages - free))

    def delete_some(self, before: int, older_than_ns: int, excess: int, most_bytes: int = _DELETE_BYTES) -> bool:
        """Deletes a limited number of the oldest events, of about `most_bytes`: those before the sequence `before` that
        are older than `older_than_ns`, or that make up `excess` bytes. Returns whether there may be more."""
        if self.damaged:
            return False
        try:
            return self._delete_some(before, older_than_ns, excess, most_bytes)
        except sqlite3.Error as e:
            self._suspect(e)
            raise

    def oldest_ns(self) -> int:
        """When the oldest event was received (Unix time); 0 if there is none, or if that can't be read."""
        if self.damaged:  # it has no connection
            return 0
        try:
            found = self._connection.execute("SELECT received_ns FROM events ORDER BY sequence LIMIT 1").fetchone()
        except sqlite3.Error:
            return 0
        return int(found[0]) if found is not None and isinstance(found[0], int) else 0

    def _delete_some(self, before: int, older_than_ns: int, excess: int, most_bytes: int) -> bool:
        rows = self._connection.execute(
            "SELECT sequence, received_ns, coalesce(length(data), 0) + length(attributes) FROM events"
            " WHERE sequence < ? ORDER BY sequence LIMIT ?",
            (before, _DELETE_ROWS),
        )
        end, size, count = self.first, 0, 0
        for sequence, received_ns, length in rows:
            if (received_ns >= older_than_ns and size >= excess) or size >= most_bytes:
                break
            end, size, count = sequence + 1, size + length, count + 1
        rows.close()
        if not count:
            return False
        self._delete(end)
        self.first = end
        return count == _DELETE_ROWS or size >= most_bytes

    def _delete(self, end: int) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            if self.sealed is not None:
                schema.keep_keys(self._connection, self.sealed, end)
            self._connection.execute("DELETE FROM events WHERE sequence < ?", (end,))
            given_up.forget(self._connection, end)
            # so that numbers are not reused when all rows are deleted
            self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('next', ?)", (self.next,))
            self._connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def shrink(self, spare: int, pages: int = 256) -> bool:
        """Returns free pages to the file system, some at a time, but keeps `spare` pages for new events. Returns
        whether there were any."""
        if self.damaged:
            return False
        free = self._connection.execute("PRAGMA freelist_count").fetchone()[0]
        if free > spare:
            self._connection.execute(f"PRAGMA incremental_vacuum({min(pages, free - spare)})").fetchall()
        return bool(free > spare)

    # -- the write-ahead log ----------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Copies the write-ahead log into the file, so that it can restart from its beginning."""
        if not self.damaged:
            self.syncs.run(lambda: self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall())

    def restart_wal(self) -> bool:
        """Copies the whole write-ahead log into the file and restarts it, after waiting briefly for readers. Returns
        whether that was possible: a reader may hold it. Raises `sqlite3.Error` and `SyncFailed`."""
        if self.damaged:
            return True
        self._connection.execute(f"PRAGMA busy_timeout = {_RESTART_WAIT_MS}")
        try:
            return self.syncs.run(self._restart, _RESTART_WAIT_MS / 1000) or False
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")

    def _restart(self) -> bool:
        return not self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0]

    def abandon(self) -> None:
        """Releases the shard but leaves its files as they are: closing the last connection would make SQLite write from
        memory what the disk failed to store. The next start reads what the disk has."""
        if not self.damaged:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))  # it is never closed
        os.close(self._lock)

    def close(self) -> None:
        """Closes the file and releases the shard."""
        try:
            self.remember(running=False)
        except StartError as e:
            log.warning("%s", e)
        if not self.damaged:
            self._connection.close()
        os.close(self._lock)


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def sequence_rows(shard: int, first: int, units: Sequence[Any]) -> list[Any]:
    """The columns of all events of these units one after another, numbered from `first`.

    Python's sqlite3 accepts text and byte arrays directly, but looks up an adapter for each `bytes` and None, which
    costs more than the conversion. So attributes are text, data is a byte array, and a missing key is "".
    """
    rows: list[Any] = []
    sequence = first
    position = position_of(shard, first)
    for unit in units:
        for event, attributes in zip(unit.events, unit.attributes, strict=True):
            received_ns = event.received_ns or unit.received_ns
            flags = (JSON_DATA if event.json_data else 0) if event.trace is None else traced_flags(event)
            key, data = event.key, event.data
            total = crc32(attributes, (position + received_ns) % PRIME ^ flags)
            if data is not None:
                total = crc32(data, total ^ 1)
                data = bytearray(data)
            if key is not None:
                total = crc32(key, total ^ 2)
            else:
                key = ""
            rows += (sequence, received_ns, flags, key, attributes.decode(), data, total)
            sequence += 1
            position += 1
    return rows


def traced_flags(event: Event) -> int:
    """The flags of an event with a trace context."""
    return TRACED | JSON_DATA if event.json_data else TRACED


# -- the length of the write-ahead log ------------------------------------------------------------------------------


class Checkpointer:
    """The writer thread reports every commit and deletion to it; it starts a checkpoint after enough bytes. `failed` is
    called with errors, on the writer's thread, and `too_long` when the disk hardly has space for a copy of the
    write-ahead log."""

    def __init__(
        self, shard: Shard, reserve: DiskReserve, failed: Callable[[Exception], None], too_long: Callable[[], None]
    ) -> None:
        self._shard = shard
        self._reserve = reserve
        self._failed = failed
        self._too_long = too_long
        self._wal = f"{shard.path}-wal"
        self._pool = ThreadPoolExecutor(1, "tidegate-log-checkpoint")
        self._pool.submit(int)  # starts its thread now: later there may be no memory for one
        self._running: Future[sqlite3.Error | SyncFailed | None] | None = None
        self._bytes = self._unseen = 0  # since the last copy, since the last look
        self._waited = self._told = float("-inf")
        self._wait_s = _WAIT_S

    def wrote(self, size: int) -> None:
        """This many bytes of events were committed."""
        size += 3 * _PAGE  # each commit also writes the pages of the tree above the rows
        self._bytes += size
        self._unseen += size
        if self._running is not None or self._unseen >= self._reserve.wal_bytes // _LOOKS:
            self.look()

    def look(self) -> None:
        """Something else was committed, or a lot."""
        self._unseen = 0
        size = self._size()
        if self._running is not None:
            if self._running.done():
                running, self._running = self._running, None
                self._finish(running.result())
        elif self._bytes >= self._reserve.wal_bytes or size > self._reserve.wal_bytes * 3 // 2:
            self._bytes = 0
            self._running = self._pool.submit(self._copy)
        if size > self._reserve.most_wal_bytes:
            self._wait_for_readers()
            if not self._reserve.full and not self._reserve.can_copy(size):
                self._too_long()

    def _size(self) -> int:
        # SQLite truncates the file to `journal_size_limit` at a restart: a longer file is in use
        try:
            return os.stat(self._wal).st_size
        except OSError:
            return 0

    def _copy(self) -> sqlite3.Error | SyncFailed | None:
        try:
            connection = sqlite3.connect(self._shard.path, isolation_level=None, timeout=10)
            try:
                self._shard.syncs.run(lambda: connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall())
            finally:
                connection.close()
        except (sqlite3.Error, SyncFailed) as e:
            return e
        return None

    def _finish(self, error: sqlite3.Error | SyncFailed | None) -> None:
        try:
            if error is None:
                self._shard.checkpoint()
        except (sqlite3.Error, SyncFailed) as e:
            error = e
        if error is not None:
            log.warning("the checkpoint of %s failed: %s", self._shard.path, error)
            self._failed(error)

    def _wait_for_readers(self) -> None:
        """Overlapping readers leave no moment without one: waits until all have left for a moment."""
        now = time.monotonic()
        if now - self._waited < self._wait_s:
            return
        self._waited = now
        try:
            if self._shard.restart_wal():
                self._bytes, self._wait_s, self._waited = 0, _WAIT_S, float("-inf")
                return
            self._wait_s = min(2 * self._wait_s, _MOST_WAIT_S)
        except (sqlite3.Error, SyncFailed) as e:
            self._failed(e)
            return
        if now - self._told >= _TELL_S:
            self._told = now
            log.warning(
                "%s takes %.0f MB and can't be shortened: another program keeps a read of this file open; end it"
                " (`lsof %s` names it) before the disk is full",
                self._wal,
                self._size() / 1e6,
                self._shard.path,
            )

    def close(self) -> None:
        """Waits for the checkpoint in progress."""
        self._pool.shutdown()
