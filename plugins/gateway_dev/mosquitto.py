"""Eclipse Mosquitto: MQTT 5 and 3.1.1."""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode
from collections.abc import Sequence

from .program import Found, Program
from .server import HOST, Server, exchange

_CONNECT = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x05\x00\x00"  # 3.1.1, without a client id and credentials


class Mosquitto(Server):
    """Keeps sessions and queued messages over restarts. It saves them after every change, but just after it has
    acknowledged it: a kill may lose what was acknowledged last."""

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
            "autosave_on_changes true",
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

    def command(self, found: Found) -> Sequence[str]:
        return [str(found.path), "-c", str(self.folder / "mosquitto.conf")]

    def answers(self) -> bool:
        # any CONNACK will do, also one that says that credentials are needed
        return exchange(self.port, _CONNECT)[:1] == b"\x20"

    def _users_changed(self) -> None:
        self._reload("Reloading config.")


def _hashed(password: str) -> str:
    """As mosquitto_passwd does it: PBKDF2 with SHA-512."""
    salt = os.urandom(12)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101)
    return f"$7$101${b64encode(salt).decode()}${b64encode(digest).decode()}"
