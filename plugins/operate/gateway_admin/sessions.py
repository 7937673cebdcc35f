"""Sessions of browsers: a cookie in place of the `Authorization` header that only programs send.

Whoever logs in with a token of the gateway gets a cookie that is signed with the gateway's own token, so it outlives a
restart; a new token ends it, and so does logging out (`EndedSessions`). Whoever logs in as an operator of the config
(`operators`) gets a random cookie; the credentials stay here, in memory, and are checked again while the session is
used, so a key that was revoked ends it.

A cookie is sent with each request to the host, whatever its port, and by every page of this origin. So its name
differs from gateway to gateway and from port to port, it is `SameSite=Strict` and `HttpOnly`, and each change must also
have the session's CSRF token in the header `X-CSRF-Token`, or in the field `csrf` of its form (OWASP, "Cross-Site
Request Forgery Prevention Cheat Sheet"). With TLS its name begins with `__Host-`, so that nobody sets it without TLS or
from another host of the domain (RFC 6265bis section 4.1.3.2).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway_api.roles import ROLES, Role
from gateway_api.routes import Request
from gateway_api.tokens import Tokens

from .ended_sessions import EndedSessions

LASTS_S = 12 * 3600
LINK_LASTS_S = 60
_MOST = 1000
_MOST_COOKIE = 2048
_MOST_COOKIES = 4
_PORT = re.compile(r":([0-9]{1,5})$")


@dataclass(slots=True)
class Credentials:
    """The header fields that an operator logged in with, and when they were last found to be good (`time.monotonic`)
    and by whom."""

    headers: Mapping[str, str]
    end_s: float
    who: str
    role: Role | None
    checked: float
    by: object = None


@dataclass(frozen=True, slots=True)
class Signed:
    """What a signed cookie says."""

    who: str
    role: Role
    end_s: int
    id: str


@dataclass(frozen=True, slots=True)
class Link:
    """Who made a link, and what the session that it begins is of: the credentials of an operator in `headers`, or else
    a token that ends at `until_s` (0: never) and `key` was made with."""

    who: str
    role: Role
    end_s: float
    headers: Mapping[str, str]
    until_s: int
    key: bytes


class Sessions:
    """The sessions of one gateway."""

    def __init__(self, tokens: Tokens, now_s: Callable[[], float] = time.time) -> None:
        self._tokens = tokens
        self._now_s = now_s
        self._remembered: dict[str, Credentials] = {}
        self._links: dict[str, Link] = {}
        self._ended = EndedSessions(tokens.data_dir / "admin.ended", now_s)
        digest = hashlib.sha256(str(tokens.data_dir.absolute()).encode()).hexdigest()
        self._cookie = f"tidegate_{digest[:10]}"

    # -- signed: of those who have a token ----------------------------------------------------------------------------

    def signed(self, who: str, role: Role, end_s: float | None = None) -> str:
        """A cookie for the holder of a token. `end_s` is the token's own end, in Unix time."""
        end = self._now_s() + LASTS_S
        told = json.dumps([who, role, int(min(end, end_s or end)), secrets.token_urlsafe(9)]).encode()
        text = base64.urlsafe_b64encode(told).decode()
        return f"{text}.{self._mac('session', text)}"

    def read(self, cookie: str) -> Signed | None:
        """What a signed cookie says; None if it is none of this gateway, or has ended."""
        text, _, mac = cookie.partition(".")
        if len(cookie) > _MOST_COOKIE or not cookie.isascii() or not self._tokens.key():
            return None
        if not hmac.compare_digest(mac, self._mac("session", text)):
            return None
        who, role, end_s, id = json.loads(base64.urlsafe_b64decode(text))
        if self._now_s() >= end_s or role not in ROLES or id in self._ended:
            return None
        return Signed(who, role, end_s, id)

    def _mac(self, purpose: str, text: str) -> str:
        return hmac.new(self._tokens.key(), f"tidegate {purpose}\n{text}".encode(), hashlib.sha256).hexdigest()

    # -- links: a session of the same credentials in a browser ---------------------------------------------------------

    def link(self, who: str, role: Role, headers: Mapping[str, str], until_s: int = 0) -> str:
        """A code that logs in once, within a minute and before a restart. The session lasts no longer than what its
        maker has: the credentials of an operator in `headers`, or a token that ends at `until_s` (0: never)."""
        now = self._now_s()
        self._links = {code: each for code, each in self._links.items() if each.end_s > now}
        while len(self._links) >= _MOST:
            del self._links[next(iter(self._links))]
        code = secrets.token_urlsafe(32)
        self._links[code] = Link(who, role, now + LINK_LASTS_S, headers, until_s, self._tokens.key())
        return code

    def find_link(self, code: str) -> Link | None:
        """What a code stands for; None if it is wrong, too old or was used before."""
        found = self._links.get(code)
        good = found is not None and self._now_s() < found.end_s and found.key == self._tokens.key()
        return found if good else None

    def follow(self, code: str) -> tuple[Link, str] | None:
        """What a code stands for, and the cookie for whoever follows the link, once; None as for `find_link`."""
        found = self.find_link(code)
        self._links.pop(code, None)
        if found is None:
            return None
        if not found.headers:
            return found, self.signed(found.who, found.role, found.until_s or None)
        cookie = self.remember(found.headers, found.who, found.role)
        self._remembered[cookie].checked = -math.inf
        return found, cookie

    # -- remembered: of operators -------------------------------------------------------------------------------------

    def remember(self, headers: Mapping[str, str], who: str, role: Role | None, by: object = None) -> str:
        """A cookie for an operator who has just logged in with these header fields, which were found to be good `by`
        someone."""
        now = self._now_s()
        self._remembered = {id: each for id, each in self._remembered.items() if each.end_s > now}
        while len(self._remembered) >= _MOST:
            del self._remembered[next(iter(self._remembered))]
        id = secrets.token_urlsafe(32)
        self._remembered[id] = Credentials(headers, now + LASTS_S, who, role, time.monotonic(), by)
        return id

    def recall(self, cookie: str) -> Credentials | None:
        """What an operator logged in with; None if the session is unknown or has ended."""
        found = self._remembered.get(cookie)
        return found if found is not None and found.end_s > self._now_s() else None

    # -- both ---------------------------------------------------------------------------------------------------------

    def forget(self, cookie: str) -> None:
        """Ends a session. That of a token is remembered in a file, so that it does not begin again with a restart."""
        if self._remembered.pop(cookie, None) is None and (found := self.read(cookie)) is not None:
            self._ended.add(found.id, found.end_s)

    def csrf(self, cookie: str) -> str:
        """The CSRF token of a session."""
        return self._mac("csrf", cookie)[:32]

    def cookie(self, request: Request) -> str:
        """The cookie's name at the port that the browser asked."""
        port = _PORT.search(request.headers.get("host", ""))
        name = f"{self._cookie}_{port[1]}" if port else self._cookie
        return f"__Host-{name}" if request.secure else name

    def of(self, request: Request) -> list[str]:
        """The cookies of this gateway in the header `Cookie` (RFC 6265 section 5.4), the first few. There may be more:
        another server of the host can set one of the same name, for a longer path, which comes first."""
        own, text = self.cookie(request), request.headers.get("cookie", "")
        pairs = (pair.strip().partition("=") for pair in text.replace(", ", ";").split(";"))
        return [value for name, _, value in pairs if name == own and value][:_MOST_COOKIES]

    def header(self, value: str, request: Request) -> str:
        """`Set-Cookie` for a cookie; an empty one removes it."""
        lasts = LASTS_S if value else 0
        # a browser that says so itself speaks TLS with a proxy that nobody has told us of
        secure = request.secure or request.headers.get("origin", "").startswith("https://")
        end = "; Secure" if secure else ""
        return f"{self.cookie(request)}={value}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Strict{end}"
