"""The demo's two processes, gateway and subscriber: started, watched and stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from gateway_core.contract.status import GatewayStatus

START_S = 60.0
STOP_S = 60.0


class DemoError(Exception):
    """The demo can't continue; the text says why, and where to look."""


class Gateway:
    """`tidegate run CONFIG` in its own process, with its log in a file."""

    def __init__(self, config: Path, data: Path, log: Path, env: dict[str, str]) -> None:
        self.log = log
        self._data = data
        settings = {"TIDEGATE_DATA_DIR": str(data), "TIDEGATE_ADMIN": "127.0.0.1:0", "TIDEGATE_WORKERS": "1"}
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "gateway_core.cli", "run", str(config)],
                env={**os.environ, **settings, **env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self._client = httpx.Client(timeout=10, trust_env=False, verify=False)
        self.ingress = ""

    def wait_ready(self) -> None:
        """Waits until the gateway is ready."""
        facts = self._data / "gateway.json"
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            self._check()
            if facts.exists():
                try:
                    self._facts = json.loads(facts.read_text())
                    if self._client.get(self._facts["admin"] + "/health/ready").status_code == 200:
                        self.ingress = next(iter(self._facts["ingress"].values()))[0]
                        return
                except (ValueError, httpx.HTTPError):
                    pass  # just written, or the admin API is not up yet
            time.sleep(0.05)
        raise DemoError(f"the gateway was not ready within {START_S:g} s\n{self.tail()}")

    def status(self) -> GatewayStatus:
        self._check()
        answer = self._client.get(self._facts["admin"] + "/status", headers=self._token())
        return GatewayStatus.read(answer.raise_for_status().json())

    def console(self) -> str:
        """A link that logs in to the console once, within a minute; "" if the gateway has no console."""
        if "console" not in self._facts:
            return ""
        answer = self._client.post(self._facts["admin"] + "/api/v1/console/link", headers=self._token())
        return f"{self._facts['admin']}{answer.raise_for_status().json()['path']}"

    def post(self, request: bytes, headers: dict[str, str]) -> httpx.Response:
        """Sends an event to the ingress."""
        return self._client.post(self.ingress, content=request, headers=headers)

    def replay(self, trigger: str) -> tuple[int, int]:
        """Replays everything that was accepted to one trigger, and waits until that is done: how many events were
        selected, and how many delivered."""
        url = self._facts["admin"] + "/api/v1/event-replays"
        asked = {"trigger": trigger, "from": "1h", "mark": True}
        job = self._client.post(url, json=asked, headers=self._token()).raise_for_status().json()
        deadline = time.monotonic() + START_S
        while job["state"] in ("counting", "running"):
            if time.monotonic() > deadline:
                raise DemoError(f"the replay to {trigger} was not done within {START_S:g} s\n{self.tail()}")
            time.sleep(0.1)
            job = self._client.get(f"{url}/{job['id']}", headers=self._token()).raise_for_status().json()
        return job["count"], job["delivered"]

    def wait(self) -> None:
        """Waits until Ctrl-C, which the gateway gets, too, or a signal to this process. Raises `DemoError` if the
        gateway ends before."""
        try:
            while True:
                self._check()
                time.sleep(0.2)
        except KeyboardInterrupt:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(2)
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Sends SIGTERM, so that the gateway finishes its work. Raises `DemoError` if it does not exit cleanly."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise DemoError(f"the gateway did not stop within {STOP_S:g} s\n{self.tail()}") from None
        if code != 0:
            raise DemoError(f"the gateway ended with code {code}\n{self.tail()}")

    def tail(self, lines: int = 15) -> str:
        """The end of the gateway's log."""
        text = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join([f"the end of {self.log}:", *("  " + line for line in text)])

    def _token(self) -> dict[str, str]:
        token = os.environ.get("TIDEGATE_ADMIN_TOKEN") or (self._data / "admin.token").read_text().strip()
        return {"authorization": f"Bearer {token}"}

    def _check(self) -> None:
        if (code := self._process.poll()) is not None:
            raise DemoError(f"the gateway ended early with code {code}\n{self.tail()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._client.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class Subscriber:
    """The failing subscriber in its own process."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self.later: dict[str, list[float]] = {}
        """When each delayed event came, in Unix seconds; known when it has finished."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gateway_demo.subscriber", str(ledger)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            raise DemoError("the subscriber did not start")

    def finish(self) -> dict[str, tuple[int, int, str]]:
        """Ends it and returns what it received: event id -> (attempts, accepted, SHA-256 of the body)."""
        self._process.communicate(timeout=STOP_S)
        return self._received()

    def fix(self) -> dict[str, tuple[int, int, str]]:
        """Makes it accept everything from now on; returns what it received before, as `finish` does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print("fix", file=self._process.stdin, flush=True)
        self._process.stdout.readline()
        return self._received()

    def _received(self) -> dict[str, tuple[int, int, str]]:
        book = json.loads(self._ledger.read_text())
        self.later = book["later"]
        rows: dict[str, tuple[int, int, str]] = {k: tuple(v) for k, v in book["rows"].items()}
        return rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
