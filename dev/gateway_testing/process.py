"""A real gateway in its own process, for tests that send to it, query, stop and kill it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import httpx


class GatewayProcess:
    """`with GatewayProcess(config_text, folder) as g:` runs `tidegate run` on that config. The gateway is ready when
    the block begins.

    `folder` holds the config, the data directory and the gateway's standard error. `g.ingress("default")` is a broker's
    address. `kill()` is `kill -9`; `start()` may follow. `launcher` is put before the command, such as `prlimit` with
    its options.
    """

    launcher: Sequence[str] = ()

    def __init__(self, config: str, folder: Path, env: Mapping[str, str] | None = None, *flags: str) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.config = folder / "tidegate.yaml"
        self.config.write_text(config)
        self.stderr = folder / "stderr.log"
        self._env = {**os.environ, **(env or {}), "TIDEGATE_ADMIN": "127.0.0.1:0"}
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None
        # one for all, as it takes longer to make than to use; each request has a connection of its own, as a kept one
        # would end with the process that it leads to
        self._asking = httpx.Client(timeout=60, verify=False, limits=httpx.Limits(max_keepalive_connections=0))

    def __enter__(self) -> GatewayProcess:
        if self._process is None:
            try:
                self.start()
            except BaseException:  # no exit follows
                if self._process is not None:
                    self.kill()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, timeout_s: float = 120.0) -> None:
        """Starts the process and waits until its ingress is open. If it does not open in time, the process keeps
        running."""
        command = [*self.launcher, sys.executable, "-m", "gateway_core.cli", "run", str(self.config)]
        command += ["--data-dir", str(self.data_dir), *self._flags]
        with self.stderr.open("ab") as log:
            self._process = self._begin(command, self._env, log)
        self.wait_until(lambda: self._address() is not None, timeout_s, "the gateway to start")

    def _begin(self, command: Sequence[str], env: Mapping[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=self.folder)

    def wait_until(self, condition: Callable[[], Any], timeout_s: float = 60.0, what: str = "a condition") -> None:
        """Waits for a condition, and looks at it every 20 ms, after a second of waiting every 50 ms. Fails immediately,
        with the gateway's log, if the gateway ends."""
        begun = time.monotonic()
        end = begun + timeout_s
        while not condition():
            if self._process is not None and self._process.poll() is not None:
                raise AssertionError(f"the gateway ended with {self._process.returncode}:\n{self.log()}")
            if time.monotonic() > end:
                raise AssertionError(f"waited {timeout_s:g} s for {what}:\n{self.log()}")
            time.sleep(0.02 if time.monotonic() < begun + 1 else 0.05)

    def log(self) -> str:
        """The end of the gateway's log."""
        return self.stderr.read_text(errors="replace")[-20_000:] if self.stderr.exists() else ""

    def _address(self) -> dict[str, Any] | None:
        try:
            address: dict[str, Any] = json.loads((self.data_dir / "gateway.json").read_text())
        except (OSError, ValueError):
            return None
        return address if address["pid"] == self.pid else None

    def ingress(self, broker: str = "default") -> str:
        """The first ingress address of a broker or bridge."""
        address = self._address()
        assert address is not None
        url: str = address["ingress"][broker][0]
        return url

    def admin(self, path: str) -> httpx.Response:
        """GET on the admin API."""
        # on one machine, to compress takes longer than to send
        headers = {"accept-encoding": "identity", **self.admin_headers}
        return self._asking.get(self.admin_url + path, headers=headers)

    @property
    def admin_url(self) -> str:
        """The address of the admin API."""
        address = self._address()
        assert address is not None
        return str(address["admin"]).rstrip("/")

    @property
    def admin_headers(self) -> dict[str, str]:
        """What a request to the admin API must have: the token."""
        token = self._env.get("TIDEGATE_ADMIN_TOKEN") or (self.data_dir / "admin.token").read_text().strip()
        return {"authorization": f"Bearer {token}"}

    def status(self) -> dict[str, Any]:
        """The status document."""
        document: dict[str, Any] = self.admin("/status").json()
        return document

    def trigger(self, name: str) -> dict[str, Any]:
        """The entry of a trigger in the status document."""
        (found,) = [t for t in self.status()["triggers"] if t["name"] == name]
        return dict(found)

    def drained(self, *triggers: str) -> bool:
        """Whether these triggers (by default all) have processed every event. Of several workers, a status has numbers
        of the others that are half a second old: count what arrived first."""
        return all(
            t["lag"] == 0 and not t["in_flight"]
            for t in self.status()["triggers"]
            if not triggers or t["name"] in triggers
        )

    def kill(self) -> None:
        """Sends SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self, timeout_s: float = 120.0) -> int:
        """Sends SIGTERM; returns the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout_s)
