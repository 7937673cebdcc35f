"""Which dead letters were imported: `<data_dir>/dead-letter/imported`, one id in a line, the oldest first.

The ids of what was replayed or removed since are in no file of dead letters any more, and an import of the same file
must not bring it back. The newest `MOST` are kept, about 25 MB.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gateway_core.contract.files import private_folder
from gateway_core.contract.private_files import replace_file, sync_directory, write_all

MOST = 1_000_000
_SLACK = 4
"""The file is shortened once it has a quarter more."""


class Imported:
    """The ids, while nobody else imports; see `imported`."""

    def __init__(self, path: Path, most: int) -> None:
        self._path = path
        self._most = most
        self._ids: dict[str, None] = {}
        with suppress(FileNotFoundError):
            whole = path.read_bytes().rpartition(b"\n")[0]  # a crash may have torn the last line
            self._ids = dict.fromkeys(whole.decode(errors="replace").split("\n"))

    def __contains__(self, id_: str) -> bool:
        return id_ in self._ids

    def add(self, ids: Iterable[str]) -> None:
        """Remembers these, durably. Raises `OSError`."""
        new = {id_: None for id_ in ids if id_ not in self._ids}
        if not new:
            return
        self._ids |= new
        if len(self._ids) > self._most + self._most // _SLACK:
            self._ids = dict.fromkeys(list(self._ids)[-self._most :])
            replace_file(self._path, _lines(self._ids))
            return
        made = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            torn = (size := os.fstat(made).st_size) > 0 and os.pread(made, 1, size - 1) != b"\n"
            write_all(made, b"\n" * torn + _lines(new))
            os.fsync(made)
        finally:
            os.close(made)
        sync_directory(self._path.parent)


@contextmanager
def imported(data_dir: Path, most: int = MOST) -> Iterator[Imported]:
    """What was imported into this data directory. Another import waits until this one has ended. Raises `OSError`."""
    path = _path(data_dir)
    private_folder(path.parent)
    lock = os.open(path.with_name("imported.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Imported(path, most)
    finally:
        os.close(lock)


def were_imported(data_dir: Path) -> Imported:
    """The ids of what was imported, as they are now. Raises `OSError`."""
    return Imported(_path(data_dir), MOST)


def _path(data_dir: Path) -> Path:
    return data_dir.absolute() / "dead-letter" / "imported"


def _lines(ids: Iterable[str]) -> bytes:
    return b"".join(id_.encode(errors="replace") + b"\n" for id_ in ids)
