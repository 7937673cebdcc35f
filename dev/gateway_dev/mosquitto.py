"""Eclipse Mosquitto: MQTT 5 and 3.1.1."""

from __future__ import annotations

import hashlib
import os
import time
from base64 import b64encode
from collections.abc import Sequence

from gateway_core.contract.errors import StartError

from .program import FoundProgram, Program
from .server import HOST, START_S, Server, exchange

_CONNECT = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x05\x00\x00"  # 3.1.1, without a client id and credentials


class Mosquitto(Server):
    """Keeps sessions and queued messages over restarts. It saves them every second: a kill loses what it has
    acknowledged since. `saved` waits for the next time."""

    program = Program("mosquitto", "mosquitto", version_argument="-h")
    title = "Mosquitto"
    scheme = "mqtt"
    tls_scheme = "mqtts"

    def write_settings(self) -> None:
        passwords = "".join(f"{name}:{_hashed(password)}\n" for name, password in self.users.items())
        file = self._written("passwords", passwords)
        lines = [
            *(["user root"] if os.geteuid() == 0 else []),
            "per_listener_settings false",
            *([f"password_file {file}", "allow_anonymous false"] if self.users else ["allow_anonymous true"]),
            "persistence true",
            f"persistence_location {self.data}/",
            # after each change would be safer, but it writes everything each time: a queue of thousands takes minutes
            "autosave_on_changes false",
            "autosave_interval 1",
            "max_queued_messages 0",
            "log_dest stderr",
            "log_timestamp_format %H:%M:%S",
            f"listener {self.port} {HOST}",
        ]
        if self._tls:
            lines += [f"listener {self.tls_port} {HOST}", f"certfile {self._tls.certificate}"]
            lines += [f"keyfile {self._tls.key}"]
            if self._tls.client_ca:
                lines += [f"cafile {self._tls.client_ca}", "require_certificate true"]
        self._written("mosquitto.conf", "\n".join([*lines, self._settings, ""]))

    def command(self, found: FoundProgram) -> Sequence[str]:
        return [str(found.path), "-c", str(self.folder / "mosquitto.conf")]

    def answers(self) -> bool:
        # any CONNACK will do, also one that says that credentials are needed
        return exchange(self.port, _CONNECT)[:1] == b"\x20"

    def saved(self, timeout_s: float = START_S) -> bool:
        deadline = time.monotonic() + timeout_s
        seen = {self._saved_at()}
        while len(seen) < 3:  # the first new one may have begun earlier
            if not self.alive or time.monotonic() > deadline:
                raise StartError(f"{self.title} does not save its data\n{self.tail()}")
            time.sleep(0.02)
            seen.add(self._saved_at())
        return True

    def _saved_at(self) -> int:
        file = self.data / "mosquitto.db"
        return file.stat().st_mtime_ns if file.exists() else 0

    def _users_changed(self) -> None:
        self._reload("Reloading config.")


def _hashed(password: str) -> str:
    """As mosquitto_passwd does it: PBKDF2 with SHA-512."""
    salt = os.urandom(12)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101)
    return f"$7$101${b64encode(salt).decode()}${b64encode(digest).decode()}"
