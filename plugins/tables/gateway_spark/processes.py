"""Exclusive ownership of a path through crashes: locks that a JVM shares with the Python process that started it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from gateway_core.contract.errors import StartError

from .naming import TYPE
from .tables.owner import LOCK

PATIENCE_S = 10.0  # a JVM whose parent died usually ends by itself within a second
_PAUSE_S = 0.05


class Lock:
    """An exclusive `flock` on a file that also names its holders.

    The JVM inherits the descriptor (`fileno`), so the lock is free only when the Python process *and* its JVM are gone:
    no second writer can start while the JVM of a killed driver still writes. If that JVM hangs, it is killed, provided
    that the file's record proves its identity.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    def fileno(self) -> int:
        return self._fd

    def acquire(self, patience_s: float = PATIENCE_S) -> None:
        """Takes the lock. Raises `StartError` if a living process holds it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not (self._try(patience_s) or (self._end_orphan() and self._try(patience_s))):
            owner = self._record().get("driver")
            os.close(self._fd)
            raise StartError(f"process {owner[0] if owner else '?'} is writing there: it holds the lock {self.path}")
        self._write({"driver": identity(os.getpid())})

    def release(self) -> None:
        """Releases the lock, as does the end of the process."""
        os.close(self._fd)
        self._fd = -1

    def add_jvm(self, pid: int) -> None:
        """Records the JVM that shares the lock."""
        self._write({"driver": identity(os.getpid()), "jvm": identity(pid)})

    def _try(self, patience_s: float) -> bool:
        end = time.monotonic() + patience_s
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            if time.monotonic() > end:
                return False
            time.sleep(_PAUSE_S)

    def _end_orphan(self) -> bool:
        record = self._record()
        if _alive(record.get("driver")) or not _alive(record.get("jvm")):
            return False
        with suppress(ProcessLookupError):
            os.kill(record["jvm"][0], signal.SIGKILL)
        return True

    def _record(self) -> dict[str, Any]:
        try:
            value = json.loads(os.pread(self._fd, 4096, 0))
        except ValueError:  # empty, or incomplete because its writer was killed
            return {}
        return value if isinstance(value, dict) else {}

    def _write(self, record: dict[str, tuple[int, str]]) -> None:
        text = json.dumps(record).encode()
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))


def lock_of(table: Path, format: str) -> Path:
    """The lock file of a table. Spark ignores names in a table that begin with _; but Delta does not create a table in
    a folder that is not empty."""
    for folder in reversed(table.parents):
        rest = table.relative_to(folder)
        if TYPE in rest.parts[0]:  # a table per event type: there is no folder of that name
            return folder / f"{'_'.join(rest.parts)}.lock"
    return table / LOCK if format == "parquet" else table.with_name(f"{table.name}.lock")


def identity(pid: int) -> tuple[int, str]:
    """A unique identity of a process: its id and start time ("" if it is gone)."""
    with suppress(OSError, IndexError):
        # the name in brackets may contain anything; the rest has a fixed format (proc(5): field 22 is starttime)
        return pid, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    if Path("/proc/self/stat").exists():
        return pid, ""
    ran = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
    return pid, ran.stdout.strip()


def _alive(known: object) -> bool:
    match known:
        case [int(pid), str(started)] if started:
            return identity(pid)[1] == started and not _zombie(pid)
    return False


def _zombie(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return False
