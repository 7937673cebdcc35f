"""Reads the lines of a file that others append to, and takes lines out of it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path

from .line_writer import is_at, sync_directory
from .private_files import write_all

_COPIED = 1024 * 1024
"""Lines are copied in parts of about this size."""


def lines_of(file: Path) -> Iterator[tuple[bytes, bytes]]:
    """Each line and its line break, which the last line lacks while it is being written, or if it is torn."""
    with file.open("rb") as f:
        for line in f:
            whole = line.endswith(b"\n")
            yield (line[:-1], b"\n") if whole else (line, b"")


def take_out(file: Path, ids: Container[str], id_of: Callable[[bytes], str | None]) -> int:
    """Writes the file without the lines of these ids next to it, then renames it; returns how many those were. Writers
    detect the new file by its inode. Raises `OSError`; then the file is as it was."""
    with _locked(file) as fd:
        if fd < 0:
            return 0
        temporary = file.with_name(file.name + ".tmp")
        made = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(made, os.fstat(fd).st_mode & 0o777)
            removed = _copy(file, ids, id_of, made)
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


def _copy(file: Path, ids: Container[str], id_of: Callable[[bytes], str | None], to: int) -> int:
    """Copies all lines but these; returns how many those were. Also an incomplete one: the next writer handles it."""
    removed, parts, size = 0, list[bytes](), 0
    for line, end in lines_of(file):
        if id_of(line) in ids:
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
