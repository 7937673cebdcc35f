"""A mosquitto for tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


class Mosquitto:
    """`port` stays the same over `kill` and `start`. `settings` are lines for its configuration."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port: int = found.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.configure(*settings)

    def configure(self, *settings: str) -> None:
        lines = [
            f"listener {self.port} 127.0.0.1",
            *(["allow_anonymous true"] if not any(s.startswith("allow_anonymous") for s in settings) else []),
            "persistence true",
            f"persistence_location {self.folder}/",
            "autosave_interval 1",
            "autosave_on_changes true",
            "max_queued_messages 100000",
            "user root",
            *settings,
        ]
        (self.folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")

    def __enter__(self) -> Mosquitto:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        program = shutil.which("mosquitto", path=PATH)
        assert program is not None, "mosquitto is not installed"
        with (self.folder / "log").open("ab") as log:
            command = [program, "-c", str(self.folder / "mosquitto.conf")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            except OSError:
                assert time.monotonic() < end, (self.folder / "log").read_text()
                assert self._process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.02)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)
