"""Which URLs lead to a listener."""

from __future__ import annotations

from urllib.parse import urlsplit

_ANY = ("", "0.0.0.0", "::")
_LOCAL = ("localhost", "127.0.0.1", "::1")
_PORTS = {"http": 80, "https": 443}


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
