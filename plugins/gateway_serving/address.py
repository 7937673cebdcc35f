"""Addresses as `HOST:PORT`: how they are written, whether they are free, and which URLs lead to them."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

_ANY = ("", "0.0.0.0", "::")
_LOCAL = ("localhost", "127.0.0.1", "::1")
_PORTS = {"http": 80, "https": 443}


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` (`[::1]:9080` for IPv6). Raises `ValueError`."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"{address!r} is not an address: write HOST:PORT")
    return host, int(port)


def check_free(address: str) -> None:
    """Raises `OSError` if nothing can listen at `host:port` now."""
    host, port = split_address(address)
    family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)


def leads_to(url: str, listen: str, path: str) -> bool:
    """Whether a request to this URL comes in at `HOST:PORT` and this path, as far as the addresses tell."""
    own, _, number = listen.rpartition(":")
    own = own.strip("[]").lower()
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return False
    host = parts.hostname or ""
    same = host == own or (host in _LOCAL and own in _LOCAL) or (own in _ANY and host in (*_LOCAL, *_ANY))
    return port != 0 and str(port) == number and same and (parts.path or "/") == path
