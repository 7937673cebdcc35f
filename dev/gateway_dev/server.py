"""A server of a transport, as a child process on 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import quote

from gateway_java import server_process
from gateway_java.child import Child
from gateway_java.ports import free_ports, is_free

from gateway_core.contract.errors import StartError

from .program import FoundProgram, Program, find

HOST = "127.0.0.1"
STOP_S = 30.0
START_S = 60.0


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files of the TLS listener: its certificate and key; with `client_ca`, clients must show a certificate that
    it has signed."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


class Server:
    """One server on 127.0.0.1 only, with a data folder of its own. It ends with the process that started it.

    `folder` holds its data, log and settings. `port` 0 chooses a free port, which stays the same through restarts.
    With `users` (name: password) no one else may connect; without them, anyone may. `tls` adds a second listener.
    `settings` are lines in the language of the server's own config file; they come last.
    """

    program: Program
    title: ClassVar[str]
    scheme: ClassVar[str]
    tls_scheme: ClassVar[str]

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        *,
        users: Mapping[str, str] | None = None,
        tls: Tls | None = None,
        settings: str = "",
    ) -> None:
        self.folder = folder
        self.users = dict(users or {})
        self._tls = tls
        self._settings = settings
        free = iter(free_ports(5))
        self.port = port or next(free)
        self._more_ports = list(free)
        self._found: FoundProgram | None = None
        self._child: Child | None = None

    # -- where it is

    @property
    def url(self) -> str:
        """The address of the plain listener, without credentials: `mqtt://127.0.0.1:1883`."""
        return f"{self.scheme}://{HOST}:{self.port}"

    @property
    def tls_port(self) -> int:
        """The port of the TLS listener, if there is one."""
        return self._more_ports[0]

    @property
    def tls_url(self) -> str:
        """The address of the TLS listener, on the name `localhost`, which certificates usually have."""
        return f"{self.tls_scheme}://localhost:{self.tls_port}"

    def url_of(self, user: str) -> str:
        """The address of the plain listener with this user's name and password."""
        return f"{self.scheme}://{quote(user, '')}:{quote(self.users[user], '')}@{HOST}:{self.port}"

    @property
    def version(self) -> str:
        """The server's version, or nothing if it does not say."""
        return self.found.version

    @property
    def found(self) -> FoundProgram:
        """Its program. Raises `Missing`."""
        if self._found is None:
            self._found = find(self.program)
        return self._found

    @property
    def data(self) -> Path:
        """The folder of its data."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """The server's log; a restart continues it."""
        return self.folder / "server.log"

    # -- life

    @property
    def pid(self) -> int | None:
        """The server's process id; None if it does not run."""
        return self._child.pid if self._child and self._child.ended() is None else None

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.pid is not None

    def start(self, timeout_s: float = START_S) -> Self:
        """Starts the server with the existing data, and returns when it takes connections. Raises `Missing`, or
        `StartError`: a port is in use, it died (with the end of its log) or did not respond in time."""
        if self.alive:
            return self
        found = self.found
        self.check_ports()
        deadline = time.monotonic() + timeout_s
        try:
            self.data.mkdir(parents=True, exist_ok=True)
            self.write_settings()
            self._begin(found)
        except OSError as e:
            raise StartError(f"can't start {self.title}: {e}") from e
        try:
            self._wait(deadline)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Sends SIGTERM, so that it saves its data and ends; SIGKILL after `timeout_s`."""
        if self._child:
            self._child.terminate(timeout_s)
            self._child = None
        self._ended()

    def kill(self) -> None:
        """SIGKILL, as a crash would; returns once it is gone."""
        if self._child:
            self._child.kill()
            self._child = None
        self._ended()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def check_ports(self) -> None:
        """Raises `StartError` if one of its ports is in use."""
        for port in (self.port, *([self.tls_port] if self._tls else [])):
            if not is_free(port):
                raise StartError(f"can't start {self.title}: port {port} of {HOST} is in use")

    def alone(self) -> AbstractContextManager[None]:
        """Locks its folder for this process. Raises `StartError` if another process holds it."""
        return server_process.alone(self.folder, self.title)

    def erase(self) -> None:
        """Deletes its data; not while it runs."""
        shutil.rmtree(self.data, ignore_errors=True)

    def saved(self, timeout_s: float = START_S) -> bool:
        """Returns True once all that the server has acknowledged so far is on the disk; False if it needs no waiting,
        because it acknowledges only what survives a kill. Raises `StartError`."""
        return False

    def set_users(self, users: Mapping[str, str]) -> None:
        """From now on only these may connect. A running server takes them at once; connections of a user who has gone
        may stay open, as the server has it."""
        self.users = dict(users)
        self.write_settings()
        if self.alive:
            self._users_changed()

    def tail(self, lines: int = 15) -> str:
        """The end of the server's log, for people."""
        return server_process.tail(self.log, lines)

    # -- what each server does its own way

    def write_settings(self) -> None:
        """Writes the server's own config files."""
        raise NotImplementedError

    def command(self, found: FoundProgram) -> Sequence[str]:
        """The command that runs the server in the foreground."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """What its environment has besides ours."""
        return {}

    def answers(self) -> bool:
        """Whether it takes connections. May raise `OSError`."""
        raise NotImplementedError

    def _reload(self, said: str) -> None:
        """Sends SIGHUP, and returns once the log has this line again. Raises `StartError`."""
        pid, before = self.pid, self._said(said)
        if pid is None:
            return
        os.kill(pid, signal.SIGHUP)
        deadline = time.monotonic() + START_S
        while self._said(said) == before:
            if not self.alive or time.monotonic() > deadline:
                raise StartError(f"{self.title} did not read its settings again\n{self.tail()}")
            time.sleep(server_process.POLL_S)

    def _said(self, text: str) -> int:
        return self.log.read_text(errors="replace").count(text)

    def _begin(self, found: FoundProgram) -> None:
        self._child = self._run(self.command(found))

    def _run(self, command: Sequence[str]) -> Child:
        return Child(command, self.log, {**os.environ, **self.found.env, **self.environment()})

    def _ended(self) -> None:
        """The server has ended; ends what belongs to it."""

    def _users_changed(self) -> None:
        """Makes the running server take the users that are written."""
        raise NotImplementedError

    def _wait(self, deadline: float) -> None:
        assert self._child is not None
        server_process.wait_until_it_answers(self._child, self._responds, deadline, self.title, self.log)

    def _responds(self) -> bool:
        try:
            return self.answers()
        except OSError:
            return False

    def _written(self, name: str, text: str, *, secret: bool = True) -> Path:
        """Writes a file of settings, only for us: it may contain passwords."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / name
        new = self.folder / f".{name}"
        new.unlink(missing_ok=True)
        new.touch(mode=0o600)
        new.write_text(text, encoding="utf-8")
        new.replace(file)
        return file


def exchange(port: int, request: bytes, size: int = 1, timeout_s: float = 5.0) -> bytes:
    """The first bytes (at least `size`, unless the server closes) that it says to a request."""
    with socket.create_connection((HOST, port), timeout_s) as s:
        s.sendall(request)
        said = b""
        while len(said) < size and (more := s.recv(4096)):
            said += more
        return said
