"""The files of dead letters: reading, and removing entries while gateways keep appending."""

from __future__ import annotations

import fcntl
import glob
import heapq
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path

from gateway_file.line_writer import is_at, sync_directory
from gateway_file.private_files import write_all

from gateway_core.contract.event import Event

from . import line as line_format
from .encryption import Keys

_COPIED = 1024 * 1024
"""Lines are copied in parts of about this size."""

log = logging.getLogger("tidegate.deadletter")


class Store:
    """The files of all workers for one configured path, and the keys that decrypt their lines. With `also_plain` lines
    that are not encrypted are read, too."""

    def __init__(self, path: Path, keys: Keys | None = None, *, also_plain: bool = True) -> None:
        self.path = path.absolute()
        self.keys = keys
        self.also_plain = also_plain
        self.closed: list[str] = []
        """What the last reading could not decrypt, one text for each file and reason. Complete once it has ended."""

    def file_of(self, worker: int, workers: int) -> Path:
        """The file that a worker appends to."""
        if workers == 1:
            return self.path
        # broker names can't contain "~", so files of workers and of brokers never clash
        return self.path.with_name(f"{self.path.stem}~{worker}{self.path.suffix}")

    def files(self) -> list[Path]:
        """All existing files, including those from runs with another number of workers."""
        pattern = f"{glob.escape(str(self.path.with_suffix('')))}~*{glob.escape(self.path.suffix)}"
        mine = [self.path] if self.path.exists() else []
        return mine + [Path(p) for p in sorted(glob.glob(pattern))]

    def state(self) -> tuple[tuple[str, int, int, int], ...]:
        """Path, inode, size and time of change (in nanoseconds) of each file."""
        found = []
        for file in self.files():
            with suppress(FileNotFoundError):
                at = file.stat()
                found.append((str(file), at.st_ino, at.st_size, at.st_mtime_ns))
        return tuple(found)

    def entries(self) -> Iterator[tuple[str, Event]]:
        """All dead letters, oldest first. Other lines are logged and skipped; those that can't be decrypted once for
        each file and reason."""
        self.closed = []
        yield from heapq.merge(*(self._read(file) for file in self.files()), key=itemgetter(0))

    def _read(self, file: Path) -> Iterator[tuple[str, Event]]:
        closed: dict[str, list[int]] = {}
        for number, (line, end) in enumerate(_lines(file), 1):
            try:
                yield line_format.read(line, self.keys, also_plain=self.also_plain)
            except line_format.Unreadable as e:
                closed.setdefault(str(e), []).append(number)
            except ValueError as e:
                if line.strip() and end:
                    log.warning("%s:%d: %s", file, number, e)
        for reason, numbers in closed.items():
            text = f"{file}: {len(numbers)} dead letters can't be read, the first in line {numbers[0]}: {reason}"
            self.closed.append(text)
            log.warning("%s", text)

    def remove(self, ids: Sequence[str]) -> int:
        """Removes dead letters; returns how many existed. Each file is replaced atomically, or not at all."""
        wanted = set(ids)
        return sum(_rewrite(file, wanted) for file in self.files()) if wanted else 0


def _lines(file: Path) -> Iterator[tuple[bytes, bytes]]:
    """Each line and its line break, which the last line lacks while it is being written, or if it is torn."""
    with file.open("rb") as f:
        for line in f:
            whole = line.endswith(b"\n")
            yield (line[:-1], b"\n") if whole else (line, b"")


def _rewrite(file: Path, ids: set[str]) -> int:
    """Writes the file without these entries next to it, then renames it. Writers detect the new file by its inode."""
    with _locked(file) as fd:
        if fd < 0:
            return 0
        temporary = file.with_name(file.name + ".tmp")
        made = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(made, os.fstat(fd).st_mode & 0o777)
            removed = _copy(file, ids, made)
            os.fsync(made)
        except OSError:
            temporary.unlink()  # it takes space
            raise
        finally:
            os.close(made)
        if not removed:
            temporary.unlink()
            return 0
        temporary.replace(file)
        sync_directory(file.parent)
        return removed


def _copy(file: Path, ids: set[str], to: int) -> int:
    """Copies all lines but these; returns how many those were. Also an incomplete one: the next writer handles it."""
    removed, parts, size = 0, list[bytes](), 0
    for line, end in _lines(file):
        if line_format.id_of(line) in ids:
            removed += 1
            continue
        parts.append(line + end)
        size += len(line)
        if size >= _COPIED:
            write_all(to, b"".join(parts))
            parts, size = [], 0
    write_all(to, b"".join(parts))
    return removed


@contextmanager
def _locked(file: Path) -> Iterator[int]:
    """Locks the current file of the path; yields -1 if there is none."""
    while True:
        try:
            fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            yield -1
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if is_at(file, fd):
                yield fd
                return
        finally:
            os.close(fd)
