"""The data directory of a running gateway, locked against a second gateway."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from .errors import Fault, StartError
from .files import folder_fault, private_folder

LOCK = "gateway.lock"
_HELD = (errno.EWOULDBLOCK, errno.EACCES)


def data_folder_faults(path: Path) -> list[Fault]:
    """Why this folder can't be the data directory of any gateway."""
    why = folder_fault(path.absolute())
    if not why and (path / LOCK).is_dir():
        why = f"{LOCK} in it is a folder"
    return [Fault(f"can't write in the data directory {path}: {why}; choose another with --data-dir")] if why else []


class DataFolder:
    """The data directory of this gateway. Raises `StartError` if its name is not UTF-8."""

    def __init__(self, path: Path) -> None:
        if os.fsencode(path).decode(errors="replace") != str(path):  # SQLite takes nothing else
            raise StartError(f"the name of the data directory is not UTF-8: {path}; choose another with --data-dir")
        self.path = path
        self._lock: int | None = None

    def claim(self) -> None:
        """Creates and locks the folder, until `leave` or the end of the process. Raises `StartError`."""
        try:
            private_folder(self.path)
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.fchmod(self._lock, 0o600)
        except OSError as e:
            raise StartError(f"can't write in the data directory {self.path}: {e.strerror or e}") from e
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            if e.errno in _HELD:
                os.close(self._lock)
                self._lock = None  # the folder belongs to the other gateway
                raise StartError(
                    f"another gateway runs with the data directory {self.path}: stop it, or choose another directory "
                    "with --data-dir or TIDEGATE_DATA_DIR"
                ) from e
            # a file system without locks: two gateways can't be detected there

    def leave(self) -> None:
        """Unlocks the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
