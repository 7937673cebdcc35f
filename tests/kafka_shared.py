"""One Kafka broker for all workers of a test run.

The first worker that needs it starts a process that keeps it. Every worker that uses it holds a shared lock on a file;
once nobody does, however the workers ended, the keeper ends the broker and itself.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gateway_java.kafka import KafkaBroker

PROPERTIES: Mapping[str, str] = {"num.partitions": "4"}  # of topics that come into being when they are first used
_START_LIMIT_S = 90.0


@contextmanager
def shared_broker(folder: Path) -> Iterator[KafkaBroker]:
    """The broker of the run whose folder this is."""
    folder.mkdir(exist_ok=True)
    with (folder / "users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        with (folder / "starting").open("w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            port = _port(folder) or _start(folder)
        yield KafkaBroker(folder / "broker", port=port)


def _port(folder: Path) -> int | None:
    file = folder / "port"
    return int(file.read_text()) if file.exists() else None


def _start(folder: Path) -> int:
    log = folder / "keeper.log"
    into = [(os.POSIX_SPAWN_OPEN, fd, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for fd in (1, 2)]
    # no Popen: that one wants to see the end of its child
    command = [sys.executable, "-P", __file__, str(folder)]
    keeper = os.posix_spawn(sys.executable, command, os.environ, file_actions=into)
    end = time.monotonic() + _START_LIMIT_S
    while (port := _port(folder)) is None:
        ended = os.waitpid(keeper, os.WNOHANG) != (0, 0)
        assert not ended, f"the shared Kafka broker did not start:\n{log.read_text()}"
        assert time.monotonic() < end, f"the shared Kafka broker did not start within {_START_LIMIT_S:g} s"
        time.sleep(0.05)
    return port


def _keep(folder: Path) -> None:
    broker = KafkaBroker(folder / "broker", properties=PROPERTIES)
    broker.start()
    try:
        new = folder / "port.new"
        new.write_text(broker.bootstrap.rpartition(":")[2])
        new.rename(folder / "port")
        with (folder / "users").open("w") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
    finally:
        broker.kill()


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
