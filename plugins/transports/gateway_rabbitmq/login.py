"""Who connects, and where."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Login:
    """Where to connect and as whom. Without a user the client's certificate says who we are (EXTERNAL)."""

    host: str
    port: int
    vhost: str
    username: str | None
    password: str | None
    heartbeat_s: int
    name: str
    tls: ssl.SSLContext | None = None
    server_hostname: str | None = None


def client_properties(name: str) -> Any:
    """What we tell the server of us. `name` is that of the connection."""
    capabilities = ("authentication_failure_close", "basic.nack", "connection.blocked", "consumer_cancel_notify")
    return {
        "product": "tidegate",
        "connection_name": name,
        "capabilities": dict.fromkeys((*capabilities, "publisher_confirms"), True),
    }
