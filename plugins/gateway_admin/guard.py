"""Who may call the admin API: no foreign web page, and only with the token if one is set.

A browser sends requests wherever a page tells it to, including this machine. `Origin` and `Sec-Fetch-Site` name the
page's origin, and `Host` reveals a page whose own host name resolves to this machine (DNS rebinding). An IP address
can't be rebound, so it never belongs to a foreign page.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway_serving.address import check_free, split_address

from gateway_core.contract.errors import Fault, Probe

from .routes import JSON, YAML, Problem, Request

if TYPE_CHECKING:
    from gateway_core.runtime.settings import Settings

MAX_BODY = 1024 * 1024
_SAFE = ("GET", "HEAD")
_LOCAL = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """Whether an address is a loopback address."""
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def exposed(address: str, token: str) -> str:
    """Why an admin API at this address would be open to other machines, or "". Raises `ValueError` if it is not an
    address."""
    if token or address in ("off", "socket"):
        return ""
    host, port = split_address(address)
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError:
        return ""  # the gateway can't listen there anyway
    if all(is_loopback(each) for each in found):
        return ""
    return f"the admin API would listen on {address}, where other machines could change the gateway without a token"


EXPOSED_REMEDY = "set TIDEGATE_ADMIN_TOKEN, or listen on 127.0.0.1 only (TIDEGATE_ADMIN)"


def check_settings(settings: Settings) -> list[Fault]:
    """The fault of an admin API that other machines could use without a token. `run` refuses it too."""
    token = settings.admin_token.get_secret_value() if settings.admin_token else ""
    try:
        fault = exposed(settings.admin, token)
    except ValueError as e:
        return [Fault(str(e), "TIDEGATE_ADMIN", remedy="write HOST:PORT, or off")]
    return [Fault(fault, "TIDEGATE_ADMIN", remedy=EXPOSED_REMEDY)] if fault else []


def probe(settings: Settings) -> list[Probe]:
    """Whether the address is free. Like `run`, it bears a default address that is taken."""
    if settings.admin in ("off", "socket"):
        return []
    named = "admin" in settings.model_fields_set
    remedy = "name another address by --admin or TIDEGATE_ADMIN"
    reason = ""
    try:
        check_free(settings.admin)
    except OSError as e:
        reason = f"{e.strerror}: {'' if named else 'the admin API will answer only at its socket; '}{remedy}"
    except ValueError as e:
        reason = str(e)
    return [Probe("admin", f"listen {settings.admin}", not (reason and named), reason)]


class Guard:
    """Raises `Problem` for forbidden requests. `host` is the address that the server is bound to; `names` are
    additional host names."""

    def __init__(self, host: str, token: str = "", names: Iterable[str] = ()) -> None:
        self._hosts = {*_LOCAL, host, *(name.strip().lower().removesuffix(".") for name in names)}
        self._any_address = not is_loopback(host)
        self._token = token.encode()

    def check_host(self, request: Request) -> None:
        """Checks the host name of a request before anything else."""
        host = request.headers.get("host")
        if host is None or _name(host) in self._hosts or (self._any_address and _is_address(_name(host))):
            return
        detail = f"{host!r} is not a name of the admin API: use the address that it listens on, or add the name to"
        raise Problem(403, f"{detail} TIDEGATE_ADMIN_HOSTS")

    def check(self, request: Request, *, open: bool) -> None:
        """Checks everything but the host name and the body. An `open` route needs no token."""
        if self._token and not open:
            self._check_token(request)
        if request.method not in _SAFE:
            _check_origin(request)
            _check_media(request)

    def _check_token(self, request: Request) -> None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("latin-1"), self._token):
            detail = "send a token: `Authorization: Bearer …` with the value of the gateway's TIDEGATE_ADMIN_TOKEN"
            raise Problem(401, detail, headers={"www-authenticate": "Bearer"})


class LocalGuard:
    """The guard of a unix socket. The permissions of its file say who may connect; browsers can't."""

    def check_host(self, request: Request) -> None:
        """Like `Guard.check_host`, but accepts any name."""

    def check(self, request: Request, *, open: bool) -> None:
        """Like `Guard.check`, without a token."""
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
        raise Problem(403, "web pages of another origin can't make changes")


def _check_media(request: Request) -> None:
    media = request.media
    if media and media not in (JSON, *YAML):
        accepted = ", ".join((JSON, *YAML))
        raise Problem(415, f"{media} is not supported here: send {JSON} or {YAML[0]}", headers={"accept": accepted})


def check_body(request: Request) -> None:
    """Requires a Content-Type for a body."""
    if request.body and not request.media:
        raise Problem(415, f"the body has no Content-Type: send {JSON} or {YAML[0]}")
