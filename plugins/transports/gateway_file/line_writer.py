"""Writes lines to a file (or a stream) with group commit: one write and one fsync for all waiting lines.

Several processes may write lines to the same file, and another process may rewrite the file meanwhile: writers and
rewriters hold an exclusive `flock` on the file itself, and then check whether the path still refers to the locked file.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol, TextIO

from gateway_json import json_text

from gateway_core.contract.clock import Clock, Timer
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.contract.outcome import raised, short
from gateway_core.contract.private_files import sync_directory as sync_directory
from gateway_core.contract.private_files import sync_names, write_all
from gateway_core.contract.shortage import is_shortage

log = logging.getLogger("tidegate.files")

Done = Callable[[Outcome], None]
GATHER_S, GATHERED = 0.005, 32
"""The least time between two writes, unless so many lines wait."""
STEADY_S, STEADY = 0.02, 8
"""The same while so many lines at least come between two writes, until the next one: a write takes Python's lock six
times, and the event loop is probably busy."""
CROWDED_S = 0.1
"""How long it is remembered that lines came beside others."""
AT_ONCE = 16
"""How many outcomes are reported before the event loop serves others."""
MOST_TAIL = 256 * 1024 * 1024
"""Our lines are never longer; a longer line has another origin."""


class Target(Protocol):
    """Where lines go. All methods but `open` run in the writer's thread."""

    def open(self) -> None:
        """Opens it. Raises `OSError`."""

    def write(self, data: bytes) -> None:
        """Returns when all data is stored. Raises `OSError`; then none of it is."""

    def close(self) -> None: ...


class FileTarget:
    """Appends to a file. It follows the path: after the file is replaced or moved away, the next lines go to the new
    file at the path.

    Existing content is never lost. A last line without a line break gets one, unless it is the torn beginning of one of
    our lines (left by a crash): that is moved to `NAME.torn` next to the file, with a log entry.
    """

    def __init__(self, path: Path, fsync: bool, mode: int = 0o640) -> None:
        self._path = path
        self._mode = mode
        self._fsync = fsync
        self._fd = -1
        self._regular = True
        self._identity = (0, 0)
        self._end = 0  # of what we wrote last

    def open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._reopen()
        with self._lock():
            pass

    def write(self, data: bytes) -> None:
        with self._lock() as size:
            try:
                write_all(self._fd, data)
                if self._fsync and self._regular:
                    os.fsync(self._fd)
            except OSError:
                if self._regular:
                    # a partial line must not become the beginning of the next one
                    with suppress(OSError):
                        os.ftruncate(self._fd, size)
                raise
            self._end = size + len(data)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _reopen(self) -> None:
        self.close()
        self._fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, self._mode)
        opened = os.fstat(self._fd)
        self._regular = stat.S_ISREG(opened.st_mode)
        self._identity = opened.st_dev, opened.st_ino
        self._end = 0
        if self._fsync and self._regular:
            try:
                sync_names(self._path, above=2)  # even if it is there: who made it may have been killed at this point
            except OSError:
                self.close()  # the next write tries again
                raise

    @contextmanager
    def _lock(self) -> Iterator[int]:
        """Locks the current file of the path, completes its last line, and yields its size."""
        if self._fd < 0:
            self._reopen()
        while True:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            if (size := self._size()) is not None:
                break
            self._reopen()  # closing releases the lock
        try:
            yield self._mend(size) if self._regular else 0
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _size(self) -> int | None:
        """The size of the open file, None if the path refers to another one, or none."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return None
        return there.st_size if (there.st_dev, there.st_ino) == self._identity else None

    def _mend(self, size: int) -> int:
        """Completes the last line. While the lock is held, a line can only be incomplete after a crash of its writer,
        or if another program wrote to the file."""
        if size in (0, self._end) or os.pread(self._fd, 1, size - 1) == b"\n":
            return size
        start = self._line_start(size)
        tail = _read(self._fd, start, size) if size - start <= MOST_TAIL else b""
        if not _is_torn(tail):
            write_all(self._fd, b"\n")
            log.warning("%s: the last line had no line break; added one", self._path)
            return size + 1
        aside = self._path.with_name(self._path.name + ".torn")
        self._keep(aside, tail)
        os.ftruncate(self._fd, start)
        log.warning(
            "%s: the last line was torn (%d bytes, at byte %d): moved to %s", self._path, len(tail), start, aside
        )
        return start

    def _line_start(self, end: int) -> int:
        """The offset of the last line."""
        while end > 0:
            start = max(0, end - 65_536)
            found = os.pread(self._fd, end - start, start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        return 0

    def _keep(self, aside: Path, tail: bytes) -> None:
        """Saves a torn line elsewhere. If it raises `OSError`, the line must not be removed."""
        fd = os.open(aside, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, self._mode)
        try:
            write_all(fd, tail + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)
        sync_directory(aside.parent)


def _is_torn(tail: bytes) -> bool:
    """Whether this may be the beginning of one of our lines, or the zeros that some file systems leave. A complete JSON
    text only lacks its line break, and a line that does not begin like an object has another origin."""
    if tail[:1] == b"\0":
        return True
    if tail[:1] != b"{":
        return False
    try:
        json_text.checked(tail)
    except ValueError:
        return True
    return False


def _read(fd: int, start: int, end: int) -> bytes:
    parts = []
    while start < end and (part := os.pread(fd, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


class StreamTarget:
    """Writes to the file descriptor of an open stream, such as standard output."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._fd = -1

    def open(self) -> None:
        self._fd = self._stream.fileno()

    def write(self, data: bytes) -> None:
        write_all(self._fd, data)

    def close(self) -> None:
        return


def is_at(path: Path, fd: int) -> bool:
    """Whether the path refers to the file open as `fd`."""
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
    """Passes lines to a thread that writes all waiting lines at once, and calls each `done` in the loop's thread.

    Lines that come beside others are gathered for up to `GATHER_S` seconds: each fsync delays those of other files. One
    that comes alone, such as the next in an order, does not wait. Outcomes are reported `AT_ONCE` at a time, so that
    the loop can serve others in between; lines that are written in response wait for the last of them.
    """

    def __init__(self, target: Target, clock: Clock) -> None:
        self._target = target
        self._clock = clock
        self._gathered: list[_Line] = []  # not yet handed to the thread
        self._queue: SimpleQueue[list[_Line] | None] = SimpleQueue()  # None: no more will come
        self._pending: set[_Line] = set()
        self._ended: deque[tuple[_Line, Outcome]] = deque()  # to be reported
        self._crowded = self._next = 0.0  # until when lines come beside others, when the next ones are handed over
        self._came = 0.0  # when the last line did
        self._late = False  # lines were to be handed over while outcomes were reported
        self._closing = False
        self._timer: Timer | None = None  # while something is pending
        self._thread: threading.Thread | None = None
        self._written: asyncio.Event  # all that came before the stop
        self._loop: asyncio.AbstractEventLoop

    async def start(self) -> None:
        """Opens the target. Raises `OSError`."""
        self._loop = asyncio.get_running_loop()
        self._target.open()
        self._written = asyncio.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="line-writer", daemon=True)
        self._thread.start()

    def write(self, line: bytes, timeout_s: float, done: Done) -> None:
        """Writes one line (adds the line break); calls `done` within `timeout_s` seconds."""
        if self._thread is None or self._closing:
            done(Outcome(False, retry=True, reason="not open"))
            return
        now = self._clock.monotonic()
        entry = _Line(line, now + timeout_s, done)
        if self._pending:
            self._crowded = now + CROWDED_S
        self._pending.add(entry)
        if self._timer is None:
            self._timer = self._clock.call_later(timeout_s, self._expire)
        self._gathered.append(entry)
        self._came = now
        if len(self._gathered) == 1 and now < self._crowded and now < self._next:
            self._loop.call_later(self._next - now, self._hand_over)
        elif len(self._gathered) in (1, GATHERED):
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._late = bool(self._ended)
        if self._gathered and not self._late:
            gathered, self._gathered = self._gathered, []
            self._queue.put(gathered)
            now = self._clock.monotonic()
            # lines that were written in response to the last ones come all at once: a longer wait would bring no more
            steady = len(gathered) >= STEADY and now - self._came < GATHER_S / 2
            self._next = now + (STEADY_S if steady else GATHER_S)

    async def stop(self) -> None:
        """Writes all waiting lines, then closes the target."""
        if self._thread is None:
            return
        self._closing = True
        self._queue.put(self._gathered)
        self._queue.put(None)
        self._gathered = []
        await self._written.wait()  # not of the thread's end: that may be known before what the thread told last
        self._thread.join()
        while self._ended:
            self._report()
        self._thread = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._target.close()

    def _run(self) -> None:
        going = True
        while going:
            batch: list[_Line] = []
            item = self._queue.get()
            while item is not None:
                batch += item
                try:
                    item = self._queue.get_nowait()
                except Empty:
                    break
            going = item is not None
            if batch:
                live = [entry for entry in batch if entry.done is not None]  # the others have timed out
                outcome = self._commit(live) if live else DELIVERED
                self._loop.call_soon_threadsafe(self._finish, batch, outcome)
        self._loop.call_soon_threadsafe(self._written.set)

    def _commit(self, batch: list[_Line]) -> Outcome:
        try:
            self._target.write(b"".join([entry.data + b"\n" for entry in batch]))
        except OSError as e:
            return short(e) if is_shortage(e) else Outcome(False, retry=True, reason=e.strerror or str(e))
        except Exception as e:  # the thread must survive: every line needs its outcome
            return raised(e)
        return DELIVERED

    def _finish(self, batch: list[_Line], outcome: Outcome) -> None:
        reporting = bool(self._ended)
        for entry in batch:
            self._pending.discard(entry)
            self._ended.append((entry, outcome))
        if not reporting:
            self._report()

    def _report(self) -> None:
        try:
            for _ in range(min(AT_ONCE, len(self._ended))):
                entry, outcome = self._ended.popleft()
                done, entry.done = entry.done, None
                if done is not None:
                    done(outcome)
        finally:
            if self._ended:
                self._loop.call_soon(self._report)
            elif self._late:
                self._hand_over()

    def _expire(self) -> None:
        """Fails lines that have timed out (a disk that hangs): they may still be written, and will be retried."""
        now = self._clock.monotonic()
        late = [entry for entry in self._pending if entry.deadline <= now]
        self._finish(late, Outcome(False, retry=True, reason="not written in time"))
        self._timer = None
        if self._pending:
            wait = min(e.deadline for e in self._pending) - now
            self._timer = self._clock.call_later(wait, self._expire)
