"""Who may call the admin API: no foreign web page, and only who is known and has the role.

A browser sends requests wherever a page tells it to, including this machine. `Origin` and `Sec-Fetch-Site` name the
page's origin, and `Host` reveals a page whose own host name resolves to this machine (DNS rebinding). An IP address
can't be rebound, so it never belongs to a foreign page.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gateway_api.roles import Role, may
from gateway_api.routes import JSON, YAML, Problem, Request
from gateway_serving.address import check_free, split_address
from gateway_serving.hosts import is_address, is_loopback, name_in

from gateway_core.contract.errors import Fault, Probe, StartError
from gateway_core.contract.one_line import one_line

from .callers import SEND, Caller, Callers, local_caller, unknown
from .certificate import certificate

if TYPE_CHECKING:
    from gateway_core.contract.settings import Settings

MAX_BODY = 1024 * 1024
_SAFE = ("GET", "HEAD")
_HTTPS = "https://"
_LOCAL = ("localhost", "127.0.0.1", "::1")


def exposed(address: str) -> bool:
    """Whether other machines reach this address. Raises `ValueError` if it is not an address."""
    if address in ("off", "socket"):
        return False
    host, port = split_address(address)
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError:
        return False  # the gateway can't listen there anyway
    return not all(is_loopback(each) for each in found)


def check_settings(settings: Settings) -> list[Fault]:
    """The faults of an address that is none, and of a certificate that can't be used."""
    try:
        exposed(settings.admin)
    except ValueError as e:
        return [Fault(str(e), "TIDEGATE_ADMIN", remedy="write HOST:PORT, or off")]
    if settings.admin_tls is not None:
        try:
            certificate(settings.admin_tls)
        except StartError as e:
            return [Fault(str(e), "TIDEGATE_ADMIN_TLS", remedy="name a folder with tls.crt and tls.key, or a PEM file")]
    return []


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
    additional host names, with `https://` before those that a proxy serves with TLS."""

    def __init__(self, host: str, callers: Callers, names: Iterable[str] = ()) -> None:
        given = [name.strip().lower().removesuffix("/") for name in names]
        secure = (name_in(name.removeprefix(_HTTPS)) for name in given if name.startswith(_HTTPS))
        self._behind_tls = {*filter(None, secure)}
        self._hosts = {*_LOCAL, host, *filter(None, map(name_in, given)), *self._behind_tls}
        self._any_address = not is_loopback(host)
        self._callers = callers

    def check_host(self, request: Request) -> None:
        """Checks the host name of a request before anything else. Only programs leave it out (HTTP/1.0)."""
        host = request.headers.get("host")
        if host is None:
            return
        name = name_in(host) or ""
        if name in self._hosts or (self._any_address and is_address(name)):
            return
        detail = f"{one_line(host, 100)!r} is not a name of the admin API: use the address that it listens on, or add"
        raise Problem(403, f"{detail} the name to TIDEGATE_ADMIN_HOSTS")

    def is_secure(self, request: Request) -> bool:
        """Whether the browser speaks TLS with a proxy, as configured: what the proxy adds, anyone could send."""
        return name_in(request.headers.get("host", "")) in self._behind_tls

    async def check(self, request: Request) -> Caller:
        """Returns who calls."""
        if request.headers.get("host") is None:
            raise Problem(400, "the request has no `Host`")
        return await self._callers.caller(request)

    def check_change(self, request: Request, takes: Sequence[str] = ()) -> None:
        """Checks the origin and the media type of a request that may change something. `takes` are the media types
        that the route takes besides the usual ones."""
        if request.method not in _SAFE:
            check_origin(request)
            _check_media(request, takes)


class LocalGuard:
    """The guard of a unix socket. The permissions of its file say who may connect; browsers can't."""

    def check_host(self, request: Request) -> None:
        """Like `Guard.check_host`, but accepts any name."""

    def is_secure(self, request: Request) -> bool:
        """Like `Guard.is_secure`: there is no proxy."""
        return False

    async def check(self, request: Request) -> Caller:
        """Like `Guard.check`, without a token."""
        return local_caller(request)

    def check_change(self, request: Request, takes: Sequence[str] = ()) -> None:
        """Like `Guard.check_change`, from any origin."""
        if request.method not in _SAFE:
            _check_media(request, takes)


def check_role(caller: Caller, needed: Role) -> None:
    """Raises `Problem` (403, for anonymous callers 401) if the caller's role is not enough."""
    if not may(caller.role, needed):
        if caller.challenges:
            raise unknown(SEND, caller.challenges)
        has = f"has the role {caller.role}" if caller.role else "has no role here"
        raise Problem(403, f"this needs the role {needed}; {one_line(caller.who, 100)} {has}")


def check_origin(request: Request) -> None:
    """Raises `Problem` (403) for a request that a page of another origin makes."""
    site = request.headers.get("sec-fetch-site", "none").lower()
    origin = request.headers.get("origin")
    own = request.headers.get("host", "").lower()
    owns = (f"https://{own}",) if request.secure else (f"http://{own}", f"https://{own}")
    foreign = origin is not None and origin.lower() not in owns
    if foreign or site not in ("none", "same-origin"):
        raise Problem(403, "web pages of another origin can't make changes")


def check_forgery(caller: Caller, request: Request) -> None:
    """Raises `Problem` (403) for a change without the session's CSRF token."""
    if not caller.csrf or request.method in _SAFE:
        return
    given = request.headers.get("x-csrf-token") or request.form.get("csrf", "")
    if not hmac.compare_digest(given.encode(), caller.csrf.encode()):
        raise Problem(403, "the page is too old for this change: load it again")


def _check_media(request: Request, takes: Sequence[str]) -> None:
    media = request.media
    if media and media not in (JSON, *YAML, *takes):
        accepted = ", ".join((JSON, *YAML))
        raise Problem(415, f"{media} is not supported here: send {JSON} or {YAML[0]}", headers={"accept": accepted})


def check_body(request: Request) -> None:
    """Requires a Content-Type for a body."""
    if request.body and not request.media:
        raise Problem(415, f"the body has no Content-Type: send {JSON} or {YAML[0]}")
