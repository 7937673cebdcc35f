"""Finds out who calls the admin API."""

from __future__ import annotations

import pwd
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway_api.roles import Role
from gateway_api.routes import Problem, Request

CHALLENGE = 'Bearer realm="tidegate admin"'
SEND = "send a token: `Authorization: Bearer …`; `tidegate admin token` shows one to the gateway's own user"

WRONG = f"the token is wrong, or has ended; {SEND}"


@dataclass(frozen=True, slots=True)
class Caller:
    """Someone who calls: `who` as the audit log names it. Without a role they may do nothing. `challenges` are for
    anonymous callers, who may log in to do more."""

    who: str
    role: Role | None
    challenges: Sequence[str] = ()
    csrf: str = ""
    """The CSRF token that a change must have, if a cookie says who calls."""
    end_s: int | None = None
    """When the token ends that the caller has, in Unix time; 0 if it does not, and for local users. None for
    credentials that must be checked again while they are used."""


def local_caller(request: Request) -> Caller:
    """Whoever can open the socket in the data directory: the gateway's own user, or a superuser."""
    return Caller(f"user {request.user}" if request.user else "local user", "admin", end_s=0)


def local_user_name(uid: int | None) -> str:
    """The name of a user of this machine; "" if that is unknown."""
    if uid is None:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class Callers(Protocol):
    """Tells who sends a request."""

    async def caller(self, request: Request) -> Caller:
        """Who it is. Raises `Problem` (401) if nobody knows."""


class Nobody:
    """Knows nobody."""

    async def caller(self, request: Request) -> Caller:
        """Raises `Problem`."""
        raise unknown("nobody can log in here")


def bearer(request: Request) -> str | None:
    """The bearer token of a request (RFC 6750 section 2.1), None without one."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not given.strip():
        return None
    return given.strip().encode("latin-1").decode("utf-8", "replace")


def unknown(detail: str, challenges: Sequence[str] = (CHALLENGE,)) -> Problem:
    """The problem of a caller who is not known."""
    return Problem(401, detail, headers={"www-authenticate": ", ".join(challenges)})
