"""How commands of the same user find a running gateway: by a file with its addresses, and a socket, both in its data
directory."""

from __future__ import annotations

import json
import logging
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gateway_core.contract.files import private_folder
from gateway_core.contract.private_files import keep_top_private, no_room, replace_file

log = logging.getLogger("tidegate")

BACKLOG = 128


def socket_path(data_dir: Path) -> Path:
    """Where the admin API of the gateway with this data directory listens."""
    return data_dir / "admin.sock"


def address_file(data_dir: Path) -> Path:
    """The file that describes a running gateway: `pid`, `admin`, `socket`, `ingress`."""
    return data_dir / "gateway.json"


def announce(data_dir: Path, facts: Mapping[str, Any]) -> None:
    """Writes the address file. A failure is logged: commands may not find the gateway, but events arrive."""
    content = json.dumps(facts).encode()
    try:
        private_folder(data_dir)
        try:
            replace_file(address_file(data_dir), content)
        except OSError as e:
            if not no_room(e):
                raise
            # overwrites the file that a crash left, which needs no space
            with address_file(data_dir).open("rb+") as file:
                file.write(content)
                file.truncate()
        keep_top_private(data_dir)
    except OSError as e:
        reason = e.strerror or e
        log.error("can't write in the data directory %s: %s; commands can't find this gateway", data_dir, reason)


def withdraw(data_dir: Path) -> None:
    """Removes the address file and the socket."""
    for file in (address_file(data_dir), socket_path(data_dir)):
        with suppress(OSError):
            file.unlink()


def listen(data_dir: Path) -> socket.socket:
    """A listening socket that only this user can reach, at `socket_path`. Raises `OSError` if the file system has
    none."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # created aside and renamed: it never has other permissions, and replaces one that a crash left
        with tempfile.TemporaryDirectory(prefix=".socket-", dir=data_dir) as aside:
            with reachable(Path(aside) / "s") as place:
                sock.bind(place)
            os.chmod(Path(aside) / "s", 0o600)
            os.replace(Path(aside) / "s", socket_path(data_dir))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


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
