"""The authenticator `oidc`: reads the token of a request, and remembers the valid ones.

Source: RFC 6750 (bearer tokens) sections 2.1 and 3.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from anyio.abc import TaskGroup

from gateway_core.contract.authenticator import Unauthenticated
from gateway_core.contract.component import BuildContext
from gateway_core.contract.event import Message
from gateway_core.contract.identity import Identity

from .config import OidcConfig
from .verifier import TokenRejected, TokenVerifier, Verified

NAME = "oidc"
CHALLENGE = 'Bearer realm="tidegate"'
CheckedToken = tuple[int, str, Identity]
"""A valid token: until when (Unix time in nanoseconds), the id of its key, and its sender."""
KEPT = 2048
"""Valid tokens that are remembered, of each of two generations."""


class OidcAuthenticator:
    """Takes the tokens of one issuer. A token that was seen before costs a look-up: valid ones are remembered, by the
    whole header field, until they expire or their key is gone. Python's hash of bytes has a key of its own in each
    process, so nobody can make entries collide."""

    challenge = CHALLENGE

    def __init__(self, config: OidcConfig, context: BuildContext) -> None:
        self._type = config.type
        self._issuer = config.issuer
        self._now_ns = context.clock.now_ns
        self._monotonic = context.clock.monotonic
        self._verifier = TokenVerifier(config, context.clock, context.owner, self._drop)
        self._store = self._verifier.store
        self._seen: dict[bytes, CheckedToken] = {}
        self._seen_before: dict[bytes, CheckedToken] = {}

    async def start(self, tasks: TaskGroup) -> None:
        """Begins to fetch keys. Raises `StartError` if a file of ours can't be used; the issuer may be away."""
        await self._verifier.start(tasks)

    async def stop(self) -> None:
        """Stops fetching keys."""
        await self._verifier.stop()

    def info(self) -> dict[str, Any]:
        """See `gateway_core.contract.authenticator.Reporting`: the issuer, and its keys."""
        return {"issuer": self._issuer, **self._store.info()}

    def recognize(self, request: Message) -> Identity | None:
        """See `gateway_core.contract.authenticator.Recognizing`."""
        value = None
        for name, field in request.headers:
            if name == b"authorization":
                if value is not None:
                    return None
                value = field
        if value is None or (seen := self._seen.get(value)) is None:
            return None
        until_ns, _, who = seen
        return who if self._now_ns() < until_ns and self._monotonic() < self._store.good_until else None

    def authenticate(self, request: Message) -> Identity | Awaitable[Identity | None] | None:
        """The sender that the token names; None without `Authorization: Bearer`."""
        value: bytes | None = None
        fields = 0
        for name, field in request.headers:
            if name == b"authorization":
                fields += 1
                if field[:7].lower() == b"bearer ":
                    value = field
        if value is None:
            return None
        if fields > 1:
            raise _refused("the request has more than one `Authorization`", "invalid_request")
        if (seen := self._seen.get(value) or self._again(value)) is not None and self._store.usable:
            if self._now_ns() < seen[0]:
                return seen[2]
            self._seen.pop(value, None)
        try:
            found = self._verifier.verify(value[7:].strip(b" "))
        except TokenRejected as e:
            raise _refused(str(e)) from None
        if isinstance(found, Verified):
            return self._keep(value, found)
        return self._later(value, found)

    async def _later(self, header: bytes, pending: Awaitable[Verified]) -> Identity:
        try:
            return self._keep(header, await pending)
        except TokenRejected as e:
            raise _refused(str(e)) from None

    def _keep(self, header: bytes, found: Verified) -> Identity:
        who = Identity(found.subject, NAME, self._type or _type_of(found.subject), found.claims)
        self._remember(header, (int(found.until * 1e9), found.key, who))
        return who

    def _again(self, header: bytes) -> CheckedToken | None:
        """A token of the older generation, which belongs to the newer one from now on."""
        if (entry := self._seen_before.pop(header, None)) is not None:
            self._remember(header, entry)
        return entry

    def _remember(self, header: bytes, entry: CheckedToken) -> None:
        if len(self._seen) >= KEPT:
            self._seen_before, self._seen = self._seen, {}
        self._seen[header] = entry

    def _drop(self, keys: frozenset[str]) -> None:
        """Forgets the tokens that were signed with other keys than these."""
        self._seen = {header: entry for header, entry in self._seen.items() if entry[1] in keys}
        self._seen_before = {header: entry for header, entry in self._seen_before.items() if entry[1] in keys}


def _type_of(subject: str) -> str:
    return "service_account" if subject.startswith("system:serviceaccount:") else "user"


def _refused(why: str, error: str = "invalid_token") -> Unauthenticated:
    return Unauthenticated(why, [f'{CHALLENGE}, error="{error}", error_description="{why}"'], rule="RFC 6750 section 3")
