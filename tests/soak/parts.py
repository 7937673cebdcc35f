"""The processes of a soak other than gateways: senders, subscriber, dead letter."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.faults.proxy import Proxy
from tests.soak.sender import Orders

_ROOT = Path(__file__).parents[2]


class Part:
    """A process of the soak's own; `start()` again after `kill()`."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._command = [sys.executable, "-m", *arguments]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def send(self, number: signal.Signals) -> None:
        """Sends a signal; nothing if it has ended."""
        if self._process:
            self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def join(self, timeout_s: float) -> bool:
        """Waits for its end; False if it goes on."""
        try:
            return self._process is None or self._process.wait(timeout_s) is not None
        except subprocess.TimeoutExpired:
            return False

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
    import socket

    end = time.monotonic() + timeout_s
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise TimeoutError(f"nobody listens at port {port}") from None
            time.sleep(0.02)


__all__ = ["Part", "Proxy", "Receiver", "Senders", "probe_until_open"]
