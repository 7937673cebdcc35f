"""The authenticator `basic`: user names and passwords (RFC 7617).

A password is checked with scrypt in a thread. What was right is remembered under a keyed hash, so that a sender's later
requests cost little and no password stays in memory; what was wrong, too, so that a sender who repeats it costs little.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections import OrderedDict
from collections.abc import Coroutine
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.abc import TaskGroup
from gateway_access.quota import network_of
from gateway_options.renewed import Renewed

from gateway_core.contract.authenticator import Unauthenticated
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Overloaded
from gateway_core.contract.event import Message
from gateway_core.contract.identity import Identity

from .config import BasicConfig
from .edited_file import renewed
from .passwords import LN, LONGEST, Hash, P, R, read_users, verify
from .turns import Turns

_SCHEME = b"basic "
_WRONG = "the user name or the password is wrong"
_BUSY = "too many passwords are being checked"
_RULE = "RFC 7617 section 2"
_MOST_WRONG = 1024
_LONGEST_TOKEN = 4096

_UNDECIDED = Identity("", "")


class _Check:
    """A check under way, for all requests that have these credentials."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.identity: Identity | None = _UNDECIDED


class BasicAuthenticator:
    """`gateway_core.contract.authenticator.Authenticator`."""

    def __init__(self, options: BasicConfig, context: BuildContext) -> None:
        self.challenge = f'Basic realm="{options.realm}", charset="UTF-8"'
        self._turns = Turns(options.max_checks, options.max_waiting)
        self._max_checks = options.max_checks
        self._limiter: CapacityLimiter | None = None
        self._key = secrets.token_bytes(32)
        self._users: dict[str, Hash] = {}
        self._nobody = Hash(LN, R, P, bytes(16), bytes(32))
        self._right: dict[bytes, Identity] = {}
        self._digests: dict[str, bytes] = {}  # a user's entry in `_right`: one each
        self._wrong: OrderedDict[bytes, None] = OrderedDict()
        self._checks: dict[bytes, _Check] = {}
        self._file = options.file
        self._owner = context.owner
        self._renewed: Renewed[dict[str, Hash] | None] | None = None

    async def start(self, tasks: TaskGroup) -> None:
        """Raises `StartError` if the file can't be used."""
        self._limiter = CapacityLimiter(self._max_checks)
        self._renewed = renewed(self._file, read_users, self._owner, "users")

    async def stop(self) -> None:
        """There is nothing to stop: checks under way belong to their requests."""

    def _current(self) -> dict[str, Hash]:
        """Raises `Overloaded` if the file was removed."""
        assert self._renewed is not None
        users = self._renewed.current()
        if users is None:
            self._replace({})
            raise Overloaded("passwords can't be checked now")
        if users is not self._users:
            self._replace(users)
        return users

    def _replace(self, users: dict[str, Hash]) -> None:
        before, self._users = self._users, users
        # unknown users take as long as the others
        self._nobody = max(users.values(), key=lambda known: known.cost, default=self._nobody)
        self._digests = {name: d for name, d in self._digests.items() if users.get(name) == before.get(name)}
        self._right = {digest: self._right[digest] for digest in self._digests.values()}
        self._wrong.clear()

    def recognize(self, request: Message) -> Identity | None:
        """See `gateway_core.contract.authenticator.Recognizing`."""
        found = [value for name, value in request.headers if name == b"authorization"]
        if len(found) != 1 or found[0][: len(_SCHEME)].lower() != _SCHEME or self._renewed is None:
            return None
        with suppress(Overloaded):  # then nobody is known
            self._current()
        return self._right.get(self._digest(found[0][len(_SCHEME) :].strip()))

    def _digest(self, token: bytes) -> bytes:
        return blake2b(token, key=self._key, digest_size=16).digest()

    def authenticate(self, request: Message) -> Identity | Coroutine[Any, Any, Identity] | None:
        found = [value for name, value in request.headers if name == b"authorization"]
        if not found or all(value[: len(_SCHEME)].lower() != _SCHEME for value in found):
            return None
        if len(found) > 1:
            raise Unauthenticated("the request has several `Authorization` fields", rule="RFC 9110 section 11.6.2")
        token = found[0][len(_SCHEME) :].strip()
        if len(token) > _LONGEST_TOKEN:
            raise Unauthenticated(_WRONG)
        self._current()
        digest = self._digest(token)
        if (identity := self._right.get(digest)) is not None:
            return identity
        if digest in self._wrong:
            raise Unauthenticated(_WRONG)
        name, password = _split(token)
        address = network_of(request)
        if digest not in self._checks and not self._turns.has_room(address):
            raise Overloaded(_BUSY)
        return self._checked(digest, name, password, address)

    async def _checked(self, digest: bytes, name: str, password: bytes, address: str) -> Identity:
        """Checks a password; requests with the same credentials share its check. The entry is made here, where it is
        also taken away: what never runs leaves none."""
        if (running := self._checks.get(digest)) is not None:
            return await self._shared(running)
        check = self._checks[digest] = _Check()
        try:
            async with self._turns.turn(address, _BUSY):
                check.identity = await self._verified(name, password)
            self._remember(digest, name, check.identity)
        finally:
            del self._checks[digest]
            check.ended.set()
        return await self._shared(check)

    async def _shared(self, check: _Check) -> Identity:
        await check.ended.wait()
        if check.identity is _UNDECIDED:
            raise Overloaded("the password could not be checked")
        if check.identity is None:
            raise Unauthenticated(_WRONG)
        return check.identity

    async def _verified(self, name: str, password: bytes) -> Identity | None:
        while True:
            known = self._current().get(name)
            right = await to_thread.run_sync(verify, password, known or self._nobody, limiter=self._limiter)
            if known == self._current().get(name):  # the file did not change meanwhile
                return Identity(f"user {name}", "basic", "user") if right and known is not None else None

    def _remember(self, digest: bytes, name: str, identity: Identity | None) -> None:
        if identity is None:
            self._wrong[digest] = None
            if len(self._wrong) > _MOST_WRONG:
                self._wrong.popitem(last=False)
            return
        self._right.pop(self._digests.get(name, b""), None)
        self._right[digest] = identity
        self._digests[name] = digest


def _split(token: bytes) -> tuple[str, bytes]:
    """User name and password. Raises `Unauthenticated`."""
    try:
        pair = base64.b64decode(token, validate=True)
        name, colon, password = pair.partition(b":")
        text = name.decode()
    except (binascii.Error, UnicodeDecodeError):
        raise Unauthenticated("the credentials are not Base64 of UTF-8", rule=_RULE) from None
    if not colon:
        raise Unauthenticated("the credentials have no colon", rule=_RULE)
    if len(password) > LONGEST:
        raise Unauthenticated(_WRONG)
    return text, password
