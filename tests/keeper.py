"""One server for all workers of a test run.

The first worker that needs it starts a process that keeps it. Every worker that uses it holds a shared lock on a file;
once nobody does, however the workers ended, the keeper ends the server and itself.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_START_LIMIT_S = 90.0


@contextmanager
def kept(folder: Path, command: Sequence[str]) -> Iterator[int]:
    """The port of the run's server in this folder. `command` runs a keeper; the folder is its last argument."""
    folder.mkdir(exist_ok=True)
    with (folder / "users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        with (folder / "starting").open("w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            port = _port(folder) or _start(folder, [*command, str(folder)])
        yield port


def keep(folder: Path, port: int) -> None:
    """In the keeper, once its server listens on this port: returns when nobody uses it any more."""
    new = folder / "port.new"
    new.write_text(str(port))
    new.rename(folder / "port")
    with (folder / "users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_EX)


def _port(folder: Path) -> int | None:
    file = folder / "port"
    return int(file.read_text()) if file.exists() else None


def _start(folder: Path, command: list[str]) -> int:
    log = folder / "keeper.log"
    into = [(os.POSIX_SPAWN_OPEN, fd, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for fd in (1, 2)]
    # no Popen: that one wants to see the end of its child
    keeper = os.posix_spawn(command[0], command, os.environ, file_actions=into)
    end = time.monotonic() + _START_LIMIT_S
    while (port := _port(folder)) is None:
        ended = os.waitpid(keeper, os.WNOHANG) != (0, 0)
        assert not ended, f"the server did not start:\n{log.read_text()}"
        assert time.monotonic() < end, f"the server did not start within {_START_LIMIT_S:g} s"
        time.sleep(0.05)
    return port
