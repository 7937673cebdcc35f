"""The processes of a soak other than gateways: senders, subscriber, dead letter."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from dataclasses import asdict
from pathlib import Path

from gateway_java.child import Child

from tests.soak.sender import Orders

_ROOT = Path(__file__).parents[2]
OWN_SESSION = (sys.executable, "-c", "import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])")
"""Starts a command so that Ctrl-C in the terminal does not reach it."""


class Part:
    """A process of the soak's own; `start()` again after `kill()`."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._command = [sys.executable, "-m", *arguments]
        self._log = log
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._child.pid if self._child and self._child.ended() is None else None

    def start(self) -> None:
        """Starts it; it ends with this process, however this one ends."""
        self._child = Child(self._command, self._log, {**os.environ, "PYTHONPATH": str(_ROOT)})

    def send(self, number: signal.Signals) -> None:
        """Sends a signal; nothing if it has ended."""
        if pid := self.pid:
            os.kill(pid, number)

    def kill(self) -> None:
        """kill -9."""
        if self._child:
            self._child.kill()

    def join(self, timeout_s: float) -> bool:
        """Waits for its end; False if it goes on."""
        end = time.monotonic() + timeout_s
        while self.pid is not None:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def tail(self) -> str:
        """The end of what it wrote."""
        return self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""


class Receiver(Part):
    """The subscriber (`index` 0) or the dead letter (1), with a port that it keeps."""

    def __init__(self, folder: Path, ledger: Path, capacity: int, index: int, port: int, began: float) -> None:
        self.index = index
        self.port = port
        arguments = (str(ledger), str(capacity), str(port), str(index), repr(began))
        super().__init__(folder / f"receiver-{index}.log", "tests.soak.receiver", *arguments)

    def start(self) -> None:
        super().start()
        probe_until_open(self.port)


class Senders(Part):
    """All senders."""

    def __init__(self, folder: Path, orders: Orders) -> None:
        super().__init__(folder / "senders.log", "tests.soak.sender", json.dumps(asdict(orders)))


def probe_until_open(port: int, timeout_s: float = 60.0) -> None:
    """Waits until somebody listens there. Raises `TimeoutError`."""
    end = time.monotonic() + timeout_s
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise TimeoutError(f"nobody listens at port {port}") from None
            time.sleep(0.02)
