"""Sessions of browsers: a cookie in place of the `Authorization` header that only programs send.

Whoever logs in with a token of the gateway gets a cookie that is signed with the gateway's own token, so it outlives a
restart, and a new token ends it. Whoever logs in as an operator of the config (`operators`) gets a random cookie; the
credentials stay here, in memory, and are checked again while the session is used, so a key that was revoked ends it.

A cookie is sent with each request to the host, whatever its port, and by every page of this origin. So its name differs
from gateway to gateway, it is `SameSite=Strict` and `HttpOnly`, and each change must also have the session's CSRF token
in the header `X-CSRF-Token`, or in the field `csrf` of its form (OWASP, "Cross-Site Request Forgery Prevention Cheat
Sheet").
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from .roles import ROLES, Role
from .tokens import Tokens

LASTS_S = 12 * 3600
LINK_LASTS_S = 60
_MOST = 1000
_MOST_COOKIE = 2048
_SESSION = "session"
_LINK = "link"


@dataclass(slots=True)
class Credentials:
    """What an operator logged in with, and when it was last found to be good (`time.monotonic`)."""

    authorization: str
    end_s: float
    who: str
    role: Role | None
    checked: float


@dataclass(frozen=True, slots=True)
class Signed:
    """What a signed cookie or link says."""

    who: str
    role: Role
    end_s: int
    id: str


class Sessions:
    """The sessions of one gateway."""

    def __init__(self, tokens: Tokens, now_s: Callable[[], float] = time.time) -> None:
        self._tokens = tokens
        self._now_s = now_s
        self._remembered: dict[str, Credentials] = {}
        self._used: dict[str, int] = {}
        digest = hashlib.sha256(str(tokens.data_dir.absolute()).encode()).hexdigest()
        self.cookie = f"tidegate_{digest[:10]}"

    # -- signed: of those who have a token ----------------------------------------------------------------------------

    def signed(self, who: str, role: Role, end_s: float | None = None) -> str:
        """A cookie for the holder of a token. `end_s` is the token's own end, in Unix time."""
        end = self._now_s() + LASTS_S
        return self._sign(_SESSION, who, role, min(end, end_s or end))

    def link(self, who: str, role: Role) -> str:
        """A code that logs in once, within a minute."""
        return self._sign(_LINK, who, role, self._now_s() + LINK_LASTS_S)

    def follow(self, code: str) -> Signed | None:
        """Who follows a link; None if the code is wrong, too old or was used before."""
        found = self._read(_LINK, code)
        now = self._now_s()
        self._used = {id: end for id, end in self._used.items() if end > now}
        if found is None or found.id in self._used:
            return None
        self._used[found.id] = found.end_s
        return found

    def read(self, cookie: str) -> Signed | None:
        """What a signed cookie says; None if it is none of this gateway, or has ended."""
        return self._read(_SESSION, cookie)

    def _sign(self, purpose: str, who: str, role: Role, end_s: float) -> str:
        told = json.dumps([who, role, int(end_s), secrets.token_urlsafe(9)]).encode()
        text = base64.urlsafe_b64encode(told).decode()
        return f"{text}.{self._mac(purpose, text)}"

    def _mac(self, purpose: str, text: str) -> str:
        return hmac.new(self._tokens.key(), f"tidegate {purpose}\n{text}".encode(), hashlib.sha256).hexdigest()

    def _read(self, purpose: str, cookie: str) -> Signed | None:
        text, _, mac = cookie.partition(".")
        if len(cookie) > _MOST_COOKIE or not cookie.isascii() or not self._tokens.key():
            return None
        if not hmac.compare_digest(mac, self._mac(purpose, text)):
            return None
        who, role, end_s, id = json.loads(base64.urlsafe_b64decode(text))
        if self._now_s() >= end_s or role not in ROLES:
            return None
        return Signed(who, role, end_s, id)

    # -- remembered: of operators -------------------------------------------------------------------------------------

    def remember(self, authorization: str, who: str, role: Role | None) -> str:
        """A cookie for an operator who has just logged in with this `Authorization`."""
        now = self._now_s()
        self._remembered = {id: each for id, each in self._remembered.items() if each.end_s > now}
        while len(self._remembered) >= _MOST:
            del self._remembered[next(iter(self._remembered))]
        id = secrets.token_urlsafe(32)
        self._remembered[id] = Credentials(authorization, now + LASTS_S, who, role, time.monotonic())
        return id

    def recall(self, cookie: str) -> Credentials | None:
        """What an operator logged in with; None if the session is unknown or has ended."""
        found = self._remembered.get(cookie)
        return found if found is not None and found.end_s > self._now_s() else None

    # -- both ---------------------------------------------------------------------------------------------------------

    def forget(self, cookie: str) -> None:
        """Ends a session of an operator. A signed one ends with its cookie."""
        self._remembered.pop(cookie, None)

    def csrf(self, cookie: str) -> str:
        """The CSRF token of a session."""
        return self._mac("csrf", cookie)[:32]

    def of(self, headers: str) -> str:
        """The cookie of this gateway in a `Cookie` header (RFC 6265 section 5.4), "" without one."""
        for pair in headers.split(";"):
            name, _, value = pair.strip().partition("=")
            if name == self.cookie:
                return value
        return ""

    def header(self, value: str, *, secure: bool) -> str:
        """`Set-Cookie` for a cookie; an empty one removes it."""
        lasts = LASTS_S if value else 0
        end = "; Secure" if secure else ""
        return f"{self.cookie}={value}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Strict{end}"
