"""Addresses as `HOST:PORT`: how they are written, whether they are free, and which URLs lead to them."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
_ANY = tuple(_LOOPBACK)
_LOCAL = ("localhost", "127.0.0.1", "::1")
_PORTS = {"http": 80, "https": 443}


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` (`[::1]:9080` for IPv6). Raises `ValueError`."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"{address!r} is not an address: write HOST:PORT")
    return host, int(port)


def url_at(scheme: str, host: str, port: int, path: str = "") -> str:
    """The URL by which this machine reaches a listener on `host`, where "" and the addresses that stand for all become
    loopback."""
    host = _LOOPBACK.get(host, host)
    return f"{scheme}://[{host}]:{port}{path}" if ":" in host else f"{scheme}://{host}:{port}{path}"


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
