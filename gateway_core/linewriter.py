"""Lines into a file (or a stream) with group commit: one write and one fsync for all that wait.

The lines of one file may come from several processes, and another process may rewrite the file meanwhile: writers and
rewriters hold an exclusive `flock` on the file itself, and after getting it look whether the path still names the file
that they locked.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from .clock import Clock, Timer
from .files import sync_directory as sync_directory
from .interfaces import DELIVERED, Outcome
from .outcome import raised, short
from .shortage import is_shortage

log = logging.getLogger("tidegate.files")

Done = Callable[[Outcome], None]
MOST_TAIL = 256 * 1024 * 1024
"""No line of ours is longer: what is, is somebody else's."""


class Target(Protocol):
    """Where lines go. Called in the writer's thread, but for `open`."""

    def open(self) -> None:
        """Makes ready; raises `OSError`."""

    def write(self, data: bytes) -> None:
        """Returns when all of it is where it shall be; raises `OSError`, then none of it is."""

    def close(self) -> None: ...


class FileTarget:
    """Appends to a file. It follows the path: when the file is replaced or moved away, the next lines go to the file
    that has the name then.

    Nothing that is in the file is ever lost. A last line without its end is completed, unless it is the torn beginning
    of a line of ours (left by a crash): that one is moved to `NAME.torn` beside the file, and the log says so.
    """

    def __init__(self, path: Path, fsync: bool, mode: int = 0o640) -> None:
        self._path = path
        self._mode = mode
        self._fsync = fsync
        self._fd = -1
        self._regular = True

    def open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._reopen()
        with self._lock():
            pass

    def write(self, data: bytes) -> None:
        with self._lock() as size:
            try:
                _write_all(self._fd, data)
                if self._fsync and self._regular:
                    os.fsync(self._fd)
            except OSError:
                if self._regular:
                    # half a line must not become the beginning of the next one
                    with suppress(OSError):
                        os.ftruncate(self._fd, size)
                raise

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _reopen(self) -> None:
        self.close()
        fresh = not self._path.exists()
        self._fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, self._mode)
        self._regular = stat.S_ISREG(os.fstat(self._fd).st_mode)
        if fresh and self._fsync:
            sync_directory(self._path.parent)

    @contextmanager
    def _lock(self) -> Iterator[int]:
        """Holds the file that the path names now; gives its size, once its last line has an end."""
        if self._fd < 0:
            self._reopen()
        while True:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            if is_at(self._path, self._fd):
                break
            self._reopen()  # closing gives the lock up
        try:
            yield self._mend() if self._regular else 0
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _mend(self) -> int:
        """Gives the last line an end. Who holds the lock sees one without only after a crash of its writer, or where
        something else wrote into the file."""
        size = os.fstat(self._fd).st_size
        if size == 0 or os.pread(self._fd, 1, size - 1) == b"\n":
            return size
        start = self._line_start(size)
        tail = _read(self._fd, start, size) if size - start <= MOST_TAIL else b""
        if not _is_torn(tail):
            _write_all(self._fd, b"\n")
            log.warning("%s: the last line had no end; it has one now", self._path)
            return size + 1
        aside = self._path.with_name(self._path.name + ".torn")
        self._keep(aside, tail)
        os.ftruncate(self._fd, start)
        log.warning(
            "%s: the last line was torn (%d bytes, at byte %d): moved to %s", self._path, len(tail), start, aside
        )
        return start

    def _line_start(self, end: int) -> int:
        """Where the last line begins."""
        while end > 0:
            start = max(0, end - 65_536)
            found = os.pread(self._fd, end - start, start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        return 0

    def _keep(self, aside: Path, tail: bytes) -> None:
        """Puts a torn line where it stays; raises `OSError`, and then nothing may be cut."""
        fd = os.open(aside, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, self._mode)
        try:
            _write_all(fd, tail + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)
        sync_directory(aside.parent)


def _is_torn(tail: bytes) -> bool:
    """Whether this may be the beginning of a line of ours, or the zeros that some file systems leave of one. A whole
    JSON text only lacks its end, and what does not begin like an object is somebody else's."""
    if tail[:1] == b"\0":
        return True
    if tail[:1] != b"{":
        return False
    try:
        msgspec.json.decode(tail)
    except (ValueError, RecursionError):
        return True
    return False


def _read(fd: int, start: int, end: int) -> bytes:
    parts = []
    while start < end and (part := os.pread(fd, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


class StreamTarget:
    """Writes to a file descriptor that is open already, such as standard output."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def open(self) -> None:
        return

    def write(self, data: bytes) -> None:
        _write_all(self._fd, data)

    def close(self) -> None:
        return


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def is_at(path: Path, fd: int) -> bool:
    """Whether the path names the file that is open as `fd`."""
    try:
        there, here = os.stat(path), os.fstat(fd)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


class _Line:
    __slots__ = ("data", "deadline", "done")

    def __init__(self, data: bytes, deadline: float, done: Done) -> None:
        self.data = data
        self.deadline = deadline
        self.done: Done | None = done


class LineWriter:
    """Hands lines to a thread that writes all waiting ones at once, and calls each `done` on the loop's thread."""

    def __init__(self, target: Target, clock: Clock) -> None:
        self._target = target
        self._clock = clock
        self._waiting: list[_Line] = []
        self._pending: set[_Line] = set()
        self._changed = threading.Condition()
        self._closing = False
        self._timer: Timer | None = None  # while something is pending
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop

    async def start(self) -> None:
        """Opens the target. Raises `OSError`."""
        self._loop = asyncio.get_running_loop()
        self._target.open()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="line-writer", daemon=True)
        self._thread.start()

    def write(self, line: bytes, timeout_s: float, done: Done) -> None:
        """One line (its break is added here); `done` follows within `timeout_s` seconds."""
        if self._thread is None or self._closing:
            done(Outcome(False, retry=True, reason="not open"))
            return
        entry = _Line(line, self._clock.monotonic() + timeout_s, done)
        self._pending.add(entry)
        if self._timer is None:
            self._timer = self._clock.call_later(timeout_s, self._expire)
        with self._changed:
            self._waiting.append(entry)
            self._changed.notify()

    async def stop(self) -> None:
        """Writes what waits, then closes the target."""
        if self._thread is None:
            return
        with self._changed:
            self._closing = True
            self._changed.notify()
        await self._loop.run_in_executor(None, self._thread.join)
        self._thread = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._target.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                batch, self._waiting = self._waiting, []
            if not batch:
                return
            live = [entry for entry in batch if entry.done is not None]  # the others were answered as late
            outcome = self._commit(live) if live else DELIVERED
            self._loop.call_soon_threadsafe(self._finish, batch, outcome)

    def _commit(self, batch: list[_Line]) -> Outcome:
        try:
            self._target.write(b"".join([entry.data + b"\n" for entry in batch]))
        except OSError as e:
            return short(e) if is_shortage(e) else Outcome(False, retry=True, reason=e.strerror or str(e))
        except Exception as e:  # the thread must live on: every letter waits for its answer
            return raised(e)
        return DELIVERED

    def _finish(self, batch: list[_Line], outcome: Outcome) -> None:
        for entry in batch:
            self._pending.discard(entry)
            done, entry.done = entry.done, None
            if done is not None:
                done(outcome)

    def _expire(self) -> None:
        """Answers lines whose time is over (a disk that hangs): they may be written still, and will be tried again."""
        now = self._clock.monotonic()
        late = [entry for entry in self._pending if entry.deadline <= now]
        self._finish(late, Outcome(False, retry=True, reason="not written in time"))
        self._timer = None
        if self._pending:
            wait = min(e.deadline for e in self._pending) - now
            self._timer = self._clock.call_later(wait, self._expire)
