"""The data directory of a running gateway: locked against a second gateway, and where commands find this one."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..contract.errors import StartError
from ..contract.files import keep_top_private, no_room, private_folder, replace_file

log = logging.getLogger("tidegate")

BACKLOG = 128
_HELD = (errno.EWOULDBLOCK, errno.EACCES)


def socket_path(data_dir: Path) -> Path:
    """Where the admin API of the gateway with this data directory listens, for commands of the same user."""
    return data_dir / "admin.sock"


def address_file(data_dir: Path) -> Path:
    """The file that describes a running gateway: `pid`, `admin`, `socket`, `ingress`."""
    return data_dir / "gateway.json"


class DataFolder:
    """The folder, as the gateway that runs with it sees it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def claim(self) -> None:
        """Creates the folder and locks it against other gateways until `leave` or the end of the process. Raises
        `StartError`."""
        try:
            private_folder(self.path)
            self._lock = os.open(self.path / "gateway.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.fchmod(self._lock, 0o600)
        except OSError as e:
            raise self._cannot_write(e) from e
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            if e.errno in _HELD:
                os.close(self._lock)
                self._lock = None  # the folder belongs to the other gateway
                raise StartError(
                    f"another gateway runs with the data directory {self.path}: stop it, or name another directory by "
                    "--data-dir or TIDEGATE_DATA_DIR"
                ) from e
            # a file system without locks: two gateways can't be detected there

    def listen(self) -> socket.socket:
        """A listening socket that only this user can reach, at `socket_path`. Raises `OSError` if the file system
        has none."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # created aside and renamed: it never has other permissions, and replaces one that a crash left
            with tempfile.TemporaryDirectory(prefix=".socket-", dir=self.path) as aside:
                with reachable(Path(aside) / "s") as place:
                    sock.bind(place)
                os.chmod(Path(aside) / "s", 0o600)
                os.replace(Path(aside) / "s", socket_path(self.path))
            sock.listen(BACKLOG)
            sock.setblocking(False)
        except BaseException:
            sock.close()
            raise
        return sock

    def announce(self, facts: Mapping[str, Any]) -> None:
        """Writes the address file, so that commands find the gateway. Raises `StartError`, except if the disk is full:
        accepted events should still be delivered."""
        content = json.dumps(facts).encode()
        try:
            private_folder(self.path)
            try:
                replace_file(address_file(self.path), content)
            except OSError as e:
                if not no_room(e):
                    raise
                self._announce_in_place(content)
            keep_top_private(self.path)
        except OSError as e:
            if not no_room(e):
                raise self._cannot_write(e) from e
            log.error("%s; commands can't find this gateway", self._cannot_write(e))

    def _announce_in_place(self, content: bytes) -> None:
        """Overwrites the file that a crash left, which needs no space."""
        with address_file(self.path).open("rb+") as file:
            file.write(content)
            file.truncate()

    def leave(self) -> None:
        """Undoes `claim`, and if this process had locked the directory, also `listen` and `announce`."""
        if self._lock is None:
            return
        for file in (address_file(self.path), socket_path(self.path)):
            with suppress(OSError):
                file.unlink()
        os.close(self._lock)
        self._lock = None

    def _cannot_write(self, error: OSError) -> StartError:
        return StartError(f"can't write in the data directory {self.path}: {error.strerror or error}")


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A path to a socket that is short enough for the system, which allows about a hundred bytes."""
    if len(os.fsencode(path)) < 100:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
