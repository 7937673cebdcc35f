"""The files of letters: reading them, and taking letters out while gateways go on appending."""

from __future__ import annotations

import fcntl
import glob
import heapq
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path

from gateway_core.event import Event
from gateway_core.linewriter import is_at, sync_directory

from . import letter

log = logging.getLogger("tidegate.deadletter")


class Store:
    """The files of all workers for one configured path."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def file_of(self, worker: int, workers: int) -> Path:
        """The file that a worker appends to."""
        if workers == 1:
            return self.path
        # no broker's name can have "~": "a" with workers and a broker "a-1" keep apart
        return self.path.with_name(f"{self.path.stem}~{worker}{self.path.suffix}")

    def files(self) -> list[Path]:
        """All that are there, also those of a time with another number of workers."""
        pattern = f"{glob.escape(str(self.path.with_suffix('')))}~*{glob.escape(self.path.suffix)}"
        mine = [self.path] if self.path.exists() else []
        return mine + [Path(p) for p in sorted(glob.glob(pattern))]

    def entries(self) -> Iterator[tuple[str, Event]]:
        """All letters, oldest first. Lines that are no letters are logged and passed over."""
        yield from heapq.merge(*(_read(file) for file in self.files()), key=itemgetter(0))

    def remove(self, ids: Sequence[str]) -> int:
        """Takes letters out; returns how many there were. Each file is replaced in one step, or stays as it is."""
        wanted = set(ids)
        return sum(_rewrite(file, wanted) for file in self.files()) if wanted else 0


def _lines(file: Path) -> Iterator[tuple[bytes, bytes]]:
    """Each line, and its end: that of the last one is missing where it is being written, or torn."""
    with file.open("rb") as f:
        for line in f:
            whole = line.endswith(b"\n")
            yield (line[:-1], b"\n") if whole else (line, b"")


def _read(file: Path) -> Iterator[tuple[str, Event]]:
    for number, (line, end) in enumerate(_lines(file), 1):
        try:
            yield letter.read(line)
        except ValueError as e:
            if line.strip() and end:
                log.warning("%s:%d: %s", file, number, e)


def _rewrite(file: Path, ids: set[str]) -> int:
    """The file without these letters, made beside it and renamed over it. Writers find the new one by its inode."""
    with _locked(file) as fd:
        if fd < 0:
            return 0
        removed = 0
        temporary = file.with_name(file.name + ".tmp")
        made = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(made, "wb") as out:
            os.fchmod(out.fileno(), os.fstat(fd).st_mode & 0o777)
            for line, end in _lines(file):
                if letter.id_of(line) in ids:
                    removed += 1
                else:
                    out.write(line + end)  # also one without an end: who writes next deals with it
            out.flush()
            os.fsync(out.fileno())
        if not removed:
            temporary.unlink()
            return 0
        temporary.replace(file)
        sync_directory(file.parent)
        return removed


@contextmanager
def _locked(file: Path) -> Iterator[int]:
    """Holds the file that has the path now; -1 where there is none."""
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
