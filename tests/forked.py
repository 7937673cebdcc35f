"""Gateways for tests, forked from a process that has already imported everything.

A gateway spends most of its start on imports: half a second of CPU time in each of some hundred tests. `tests/cli` has
the tests of real commands. Here, all else is as in a new process: signals, environment, working directory, standard
files and exit code.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

_READ_ONCE = ("PYTHON", "LD_", "MALLOC_", "OPENSSL_", "SSL_", "GLIBC_", "COVERAGE")
"""Beginnings of variables that are read when a process starts or imports something."""
_MOST = 1 << 20
_USUAL = """
brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}], channel: log, dead_letter: {file: {path: letters.jsonl}}}}
triggers: {t: {filters: [{exact: {type: t}}], subscriber: "http://127.0.0.1:1/", delivery: {retry: 1}}}
"""


class Forked(subprocess.Popen[bytes]):
    """A process that someone else forked. `status` is the descriptor of a pipe that gives its exit code, and ends."""

    def __init__(self, command: Sequence[str], pid: int, status: int) -> None:
        self.args, self.pid, self.returncode = command, pid, None  # type: ignore[assignment]
        self.stdin = self.stdout = self.stderr = None
        self._child_created, self._communication_started = True, False
        self._status = status
        self._waitpid_lock = threading.Lock()

    def poll(self) -> int | None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._status, selectors.EVENT_READ)
            return self._ended() if selector.select(0) else self.returncode

    def wait(self, timeout: float | None = None) -> int:
        with selectors.DefaultSelector() as selector:
            selector.register(self._status, selectors.EVENT_READ)
            if not selector.select(timeout):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self._ended()

    def _ended(self) -> int:
        with self._waitpid_lock:
            if self.returncode is None:
                self.returncode = int(b"".join(iter(lambda: os.read(self._status, 100), b"")))
        return self.returncode

    def __del__(self, *_: Any) -> None:
        os.close(self._status)


class Forker:
    """The process from which gateways are forked; it ends with this one."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket, self._lock = ours, threading.Lock()
        with theirs:
            command = [sys.executable, "-P", __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])

    def fork(self, command: Sequence[str], env: Mapping[str, str], folder: Path, log: IO[bytes]) -> Forked:
        """Runs a command of the gateway: its arguments, without Python and the module."""
        status, theirs = os.pipe()
        with self._lock, open(os.devnull, "rb") as nothing:
            said = json.dumps([list(command), dict(env), str(folder)]).encode()
            assert len(said) < _MOST
            socket.send_fds(self._socket, [said], [nothing.fileno(), log.fileno(), theirs])
            os.close(theirs)
            pid = int(self._socket.recv(100))
        return Forked(command, pid, status)


@cache
def _forker() -> Forker:
    return Forker()


def install() -> None:
    """Lets `GatewayProcess` fork gateways, where a fork does what a new process would."""
    from gateway_testing.process import GatewayProcess

    begin = GatewayProcess._begin

    def fork(self: GatewayProcess, command: Sequence[str], env: Mapping[str, str], log: IO[bytes]) -> Any:
        module = [sys.executable, "-m", "gateway_core.cli"]
        if list(command[:3]) != module or _read_once(env) != _read_once(os.environ):
            return begin(self, command, env, log)
        return _forker().fork(command[3:], env, self.folder, log)

    GatewayProcess._begin = fork  # type: ignore[method-assign]


def _read_once(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_READ_ONCE)}


# -- in the process that forks -----------------------------------------------------------------------------------------


def _import_all() -> None:
    import importlib
    import pkgutil

    from gateway_core.config.load import load_all
    from gateway_core.config.registry import Registry

    for offer in Registry.installed().offers():
        _ = offer.component.model
    names = ("admin", "basics", "cloudevents", "http", "inspect", "log", "serving", "workers", "file", "deadletter")
    packages = ["gateway_core.cli", "gateway_core.runtime", *(f"gateway_{name}" for name in names)]
    found = [
        one.name
        for package in map(importlib.import_module, packages)
        for one in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        if not one.name.endswith("__main__")
    ]
    later = ("gateway_console.routes", "gateway_console.parts", "gateway_console.service", "gateway_replay.service")
    more = ("gateway_core.runtime.replacement", "uvloop", "anyio._backends._asyncio", "encodings.idna")
    for name in (*found, *later, *more):
        with suppress(ImportError):
            importlib.import_module(name)
    # pydantic builds most validators when they are first used
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write(_USUAL)
        config.flush()
        load_all([Path(config.name)], Registry.installed(), {})


def _serve(asked: socket.socket) -> None:
    """Forks whenever it is asked; returns in each process that it has forked, ready to run its command."""
    reports: dict[int, int] = {}
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(wake)
    with selectors.DefaultSelector() as selector:
        selector.register(asked, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if woken in ready:
                os.read(woken, 1000)
                _report(reports)
            if asked.fileno() not in ready:
                continue
            said, files, _, _ = socket.recv_fds(asked, _MOST, 3)
            if not said:
                os._exit(0)
            pid = os.fork()
            if not pid:
                break
            reports[pid] = files.pop()
            for file in files:
                os.close(file)
            asked.send(str(pid).encode())
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asked.close()
    command, env, folder = json.loads(said)
    for target, source in enumerate((files[0], files[1], files[1])):
        os.dup2(source, target)
    os.closerange(3, 1024)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[:] = ["tidegate", *command]


def _report(reports: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            with suppress(BrokenPipeError), os.fdopen(reports.pop(ended[0]), "wb") as report:
                report.write(str(os.waitstatus_to_exitcode(ended[1])).encode())


if __name__ == "__main__":
    import gc

    from gateway_core.cli import main

    gc.disable()
    _import_all()
    gc.freeze()
    gc.enable()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    main()
