"""Who may call the admin API: not a web page that somebody visits, and with a token where one is set.

A browser sends requests wherever a page tells it to, also to this machine. It names the page's origin in `Origin` and
`Sec-Fetch-Site`; and a page whose own host name was made to lead here (DNS rebinding) shows in `Host`. An address
can't be made to lead elsewhere, so none of a foreign page is ever ours.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Iterable

from ..asgi import split_address
from .http import JSON, YAML, Problem, Request

MAX_BODY = 1024 * 1024
_SAFE = ("GET", "HEAD")
_LOCAL = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """Whether an address is one of this machine's own."""
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def exposed(address: str, token: str) -> str:
    """Why an admin API at this address would be open to other machines; "" where it isn't. Raises `ValueError` where
    it is no address."""
    if token or address in ("off", "socket"):
        return ""
    host, port = split_address(address)
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError:
        return ""  # it can't be listened on
    if all(is_loopback(each) for each in found):
        return ""
    return f"the admin API would listen on {address}, where other machines may reach it, and anyone could change it"


EXPOSED_REMEDY = "set TIDEGATE_ADMIN_TOKEN, or let it listen on 127.0.0.1 only (TIDEGATE_ADMIN)"


class Guard:
    """Raises `Problem` for what may not be. `host` is the address that the server is bound to, `names` are more names
    by which it is known."""

    def __init__(self, host: str, token: str = "", names: Iterable[str] = ()) -> None:
        self._hosts = {*_LOCAL, host, *(name.strip().lower().removesuffix(".") for name in names)}
        self._any_address = not is_loopback(host)
        self._token = token.encode()

    def check_host(self, request: Request) -> None:
        """Checks the name by which we are asked, before anything is told."""
        host = request.headers.get("host")
        if host is None or _name(host) in self._hosts or (self._any_address and _is_address(_name(host))):
            return
        detail = f"the admin API is not known as {host!r}: use the address that it listens on, or add the name to"
        raise Problem(403, f"{detail} TIDEGATE_ADMIN_HOSTS")

    def check(self, request: Request, *, open: bool) -> None:
        """Checks all but name and body, which need not be read for that. An `open` route takes no token."""
        if self._token and not open:
            self._check_token(request)
        if request.method not in _SAFE:
            _check_origin(request)
            _check_media(request)

    def _check_token(self, request: Request) -> None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("latin-1"), self._token):
            detail = "a token is needed: `Authorization: Bearer …` with the value of the gateway's TIDEGATE_ADMIN_TOKEN"
            raise Problem(401, detail, headers={"www-authenticate": "Bearer"})


class LocalGuard:
    """The guard of a unix socket. Its file's permissions say who may call; a browser can't."""

    def check_host(self, request: Request) -> None:
        """As `Guard.check_host`: any name is right."""

    def check(self, request: Request, *, open: bool) -> None:
        """As `Guard.check`."""
        if request.method not in _SAFE:
            _check_media(request)


def _name(host: str) -> str:
    """The name in a `Host` header, without port and brackets."""
    name = host.lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def _check_origin(request: Request) -> None:
    site = request.headers.get("sec-fetch-site", "none").lower()
    origin = request.headers.get("origin")
    own = request.headers.get("host", "").lower()
    foreign = origin is not None and origin.lower() not in (f"http://{own}", f"https://{own}")
    if foreign or site not in ("none", "same-origin"):
        raise Problem(403, "changes are not taken from web pages of another origin")


def _check_media(request: Request) -> None:
    media = request.media
    if media and media not in (JSON, *YAML):
        accepted = ", ".join((JSON, *YAML))
        raise Problem(415, f"{media} is not taken here: send {JSON} or {YAML[0]}", headers={"accept": accepted})


def check_body(request: Request) -> None:
    """A body says what it is."""
    if request.body and not request.media:
        raise Problem(415, f"the body has no Content-Type: send {JSON} or {YAML[0]}")
