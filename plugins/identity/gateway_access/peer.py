"""What an ingress knows of the client at the other end of a connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


def _none() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Peer:
    """A client: its `address` ("127.0.0.1:50412", "" if unknown), and its TLS `certificate` as
    `ssl.SSLSocket.getpeercert` returns it, None without one. The certificate was verified during the handshake."""

    address: str
    certificate: Callable[[], Mapping[str, Any] | None] = _none

    @property
    def host(self) -> str:
        """The address without its port."""
        return self.address.rpartition(":")[0].strip("[]")
