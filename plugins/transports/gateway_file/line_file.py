"""Reads the lines of a file that others append to, and takes lines out of it.

Taking lines out rewrites the whole file, so many lines go in two steps: each is first overwritten with spaces where
it stands, which costs the same in any file, and once at the end the file is written without such lines. Readers skip
them, also after a crash between the steps.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from gateway_core.contract.private_files import write_all

from .line_writer import is_at, sync_directory

_COPIED = 1024 * 1024
"""Lines are copied in parts of about this size."""


def lines_of(file: Path) -> Iterator[tuple[bytes, bytes]]:
    """Each line and its line break, which the last line lacks while it is being written, or if it is torn."""
    with file.open("rb") as f:
        for line in f:
            whole = line.endswith(b"\n")
            yield (line[:-1], b"\n") if whole else (line, b"")


class LinePlace(NamedTuple):
    """Where a line stands: the file, as which it was opened (device and inode), offset and size in bytes without the
    line break."""

    file: Path
    opened: tuple[int, int]
    start: int
    size: int


def lines_at(file: Path) -> Iterator[tuple[LinePlace, bytes, bytes]]:
    """As `lines_of`, with the place of each line."""
    with file.open("rb") as f:
        at = os.fstat(f.fileno())
        opened, start = (at.st_dev, at.st_ino), 0
        for line in f:
            end = b"\n" if line.endswith(b"\n") else b""
            text = line[:-1] if end else line
            yield LinePlace(file, opened, start, len(text)), text, end
            start += len(line)


def is_going(line: bytes) -> bool:
    """Whether a line that can't be read may be one that is overwritten just now, or was when the machine crashed."""
    return line[:1] == b" " or line[-1:] == b" "


def blank_out(found: Sequence[tuple[str, LinePlace]], id_of: Callable[[bytes], str | None]) -> None:
    """Overwrites the lines of these ids with spaces, durable when this returns. One that is no longer at its place is
    taken out. Raises `OSError`; then some may be there still."""
    for file, group in groupby(sorted(found, key=lambda each: each[1].file), lambda each: each[1].file):
        elsewhere = set()
        with _locked(file) as fd:
            if fd < 0:
                continue
            at = os.fstat(fd)
            for id_, place in group:
                here = place.opened == (at.st_dev, at.st_ino)
                if here and id_of(os.pread(fd, place.size, place.start)) == id_:
                    _overwrite(fd, place)
                else:
                    elsewhere.add(id_)
            os.fdatasync(fd)
        if elsewhere:
            take_out(file, elsewhere, id_of)


def _overwrite(fd: int, place: LinePlace) -> None:
    start, end = place.start, place.start + place.size
    while start < end:
        start += os.pwrite(fd, b" " * (end - start), start)


def compact(file: Path) -> None:
    """Takes out the lines that were overwritten with spaces, as `take_out` does. Raises `OSError`."""
    take_out(file, (), lambda line: None)


def take_out(file: Path, ids: Container[str], id_of: Callable[[bytes], str | None]) -> int:
    """Writes the file without the lines of these ids, and without those that were overwritten with spaces, next to it,
    then renames it; returns how many ids' lines there were. Writers detect the new file by its inode. Raises `OSError`;
    then the file is as it was."""
    with _locked(file) as fd:
        if fd < 0:
            return 0
        temporary = file.with_name(file.name + ".tmp")
        made = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(made, os.fstat(fd).st_mode & 0o777)
            removed, blank = _copy(file, ids, id_of, made)
            os.fsync(made)
        except OSError:
            temporary.unlink()  # it takes space
            raise
        finally:
            os.close(made)
        if not removed and not blank:
            temporary.unlink()
            return 0
        temporary.replace(file)
        sync_directory(file.parent)
        return removed


def _copy(file: Path, ids: Container[str], id_of: Callable[[bytes], str | None], to: int) -> tuple[int, int]:
    """Copies all lines but these and those of spaces; returns how many there were of each. Also an incomplete one: the
    next writer handles it."""
    removed, blank, parts, size = 0, 0, list[bytes](), 0
    for line, end in lines_of(file):
        if line[:1] == b" " and not line.strip(b" "):
            blank += 1
            continue
        if id_of(line) in ids:
            removed += 1
            continue
        parts.append(line + end)
        size += len(line)
        if size >= _COPIED:
            write_all(to, b"".join(parts))
            parts, size = [], 0
    write_all(to, b"".join(parts))
    return removed, blank


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
