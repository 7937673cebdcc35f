"""Files of the audit log: appended to a line at a time, rotated by size, and bounded in number."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gateway_core.contract.files import private_folder

FOLDER = "audit"
MOST_BYTES = 8 * 1024 * 1024
"""The size at which a file is rotated."""
KEPT = 9
"""Rotated files that are kept beside the current one."""


def audit_file(data_dir: Path, worker: int) -> Path:
    """The file of a worker."""
    return data_dir / FOLDER / (f"audit-{worker}.jsonl" if worker else "audit.jsonl")


def rotated(path: Path, number: int) -> Path:
    """A rotated file; 1 is the newest."""
    return path.with_name(f"{path.name}.{number}")


def current_files(data_dir: Path) -> list[Path]:
    """The current files of all workers. Raises `OSError`."""
    try:
        return sorted(f for f in (data_dir / FOLDER).iterdir() if f.name.startswith("audit") and f.suffix == ".jsonl")
    except (FileNotFoundError, NotADirectoryError):
        return []


def generations(path: Path) -> Iterator[Path]:
    """A worker's files, oldest first."""
    yield from (file for number in range(KEPT, 0, -1) if (file := rotated(path, number)).exists())
    yield path


class LineFile:
    """One file (0600). Commands may append to the file of a running gateway: each line is one write, and whoever has
    the lock rotates."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES, kept: int = KEPT) -> None:
        self.path = path
        self._most_bytes = most_bytes
        self._kept = kept
        self._descriptor = -1
        self._torn = False

    def append(self, line: bytes) -> None:
        """Appends a line, without its end. Raises `OSError`; then no part of it counts as a line."""
        self._open()
        data = b"\n" * self._torn + line + b"\n"
        self._torn = True
        written = os.write(self._descriptor, data)
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self._torn = False
        if os.fstat(self._descriptor).st_size >= self._most_bytes:
            self._rotate()

    def close(self) -> None:
        """Closes the file; the next line opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()

    def _open(self) -> None:
        """Opens the file unless it is open and has not been moved or removed."""
        if self._descriptor >= 0 and self._is_current():
            return
        self.close()
        private_folder(self.path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, 0o600)
        self._hand_over()
        size = os.fstat(self._descriptor).st_size
        self._torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"  # a crash, or a full disk

    def _hand_over(self) -> None:
        """Gives what a superuser's command made to the owner of the data directory: the gateway must write it too."""
        if os.geteuid() != 0:
            return
        owner = os.stat(self.path.parent.parent)
        if owner.st_uid != os.fstat(self._descriptor).st_uid:
            os.fchown(self._descriptor, owner.st_uid, owner.st_gid)
            os.chown(self.path.parent, owner.st_uid, owner.st_gid)

    def _is_current(self) -> bool:
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        ours = os.fstat(self._descriptor)
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def _rotate(self) -> None:
        """Renames the file, and drops the oldest. Another process may be doing it: then nothing is to be done."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if self._is_current():
            for number in range(self._kept - 1, 0, -1):
                with suppress(FileNotFoundError):
                    rotated(self.path, number).replace(rotated(self.path, number + 1))
            self.path.replace(rotated(self.path, 1))
        self.close()
