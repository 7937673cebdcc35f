"""Finds out who calls the admin API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .roles import Role
from .routes import Problem, Request
from .tokens import Tokens

CHALLENGE = 'Bearer realm="tidegate admin"'
_SEND = "send a token: `Authorization: Bearer …`; `tidegate admin token` shows one to the gateway's own user"


@dataclass(frozen=True, slots=True)
class Caller:
    """Someone who may call: `who` as the audit log names it."""

    who: str
    role: Role


LOCAL = Caller("local user", "admin")
"""Whoever can open the socket in the data directory: the gateway's own user."""


class Callers(Protocol):
    """Tells who sends a request."""

    async def caller(self, request: Request) -> Caller:
        """Who it is. Raises `Problem` (401) if nobody knows."""


class Nobody:
    """Knows nobody."""

    async def caller(self, request: Request) -> Caller:
        """Raises `Problem`."""
        raise unknown("nobody can log in here")


class TokenCallers:
    """Knows who has a token of the gateway."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def caller(self, request: Request) -> Caller:
        """Who has the token of the request. Raises `Problem`."""
        given = bearer(request)
        if given is None:
            raise unknown(_SEND)
        found = self._tokens.holder(given)
        if found is None:
            raise unknown(f"the token is wrong, or has ended; {_SEND}")
        return Caller(found.name, found.role)


def bearer(request: Request) -> str | None:
    """The bearer token of a request (RFC 6750 section 2.1), None without one."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not given.strip():
        return None
    return given.strip().encode("latin-1").decode("utf-8", "replace")


def unknown(detail: str, challenges: tuple[str, ...] = (CHALLENGE,)) -> Problem:
    """The problem of a caller who is not known."""
    return Problem(401, detail, headers={"www-authenticate": ", ".join(challenges)})
