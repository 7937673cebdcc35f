"""The authenticator `api_key`.

A key that was right is remembered as it came, so that it costs a look-up in a dict instead of a hash. That tells nobody
anything: a dict compares bytes only after their 64-bit hashes agree, which a wrong key can't arrange.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from anyio.abc import TaskGroup
from gateway_options.renewed import Renewed

from gateway_core.contract.authenticator import Unauthenticated
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Overloaded
from gateway_core.contract.event import Message
from gateway_core.contract.identity import Identity

from .config import ApiKeyConfig
from .edited_file import renewed
from .keys import PREFIX, Key, id_of, read_keys

_BEARER = b"bearer "
_PREFIX = PREFIX.encode()


class _Known(NamedTuple):
    identity: Identity
    digest: bytes
    expires_ns: int  # 0: never


_NOBODY = _Known(Identity("", ""), bytes(32), 0)
"""Compared with if no key has the id, so that this takes as long."""


class _Keys:
    """The keys of a file as it was once: by their ids, and as they came."""

    def __init__(self, by_id: dict[str, _Known]) -> None:
        self._by_id = by_id
        self.right: dict[bytes, _Known] = {}  # no more than there are keys
        self.lasting: dict[bytes, Identity] = {}  # those of them that never expire

    @classmethod
    def read(cls, content: bytes, path: Path) -> _Keys:
        return cls({id_: _known(key) for id_, key in read_keys(content, path).items()})

    def find(self, presented: bytes) -> _Known:
        """Raises `Unauthenticated`."""
        id_ = id_of(presented)
        if id_ is None:
            raise Unauthenticated("the API key does not look like one")
        known = self._by_id.get(id_, _NOBODY)
        if not compare_digest(sha256(presented).digest(), known.digest):
            raise Unauthenticated(f"there is no such API key as {id_}, or it was revoked")
        self.right[presented] = known
        if not known.expires_ns:
            self.lasting[presented] = known.identity
        return known


class ApiKeyAuthenticator:
    """`gateway_core.contract.authenticator.Authenticator`."""

    def __init__(self, options: ApiKeyConfig, context: BuildContext) -> None:
        self.challenge = f'ApiKey realm="tidegate", header="{options.header}"'
        self._header = options.header.encode()
        self._query = options.query
        self._bearer = options.bearer
        self._elsewhere = options.bearer or options.query is not None
        self._now_ns = context.clock.now_ns
        self._file = options.file
        self._owner = context.owner
        self._keys: Renewed[_Keys | None] | None = None

    async def start(self, tasks: TaskGroup) -> None:
        """Raises `StartError` if the file can't be used."""
        self._keys = renewed(self._file, _Keys.read, self._owner, "API keys")

    async def stop(self) -> None:
        """There is nothing to stop."""

    @property
    def presented_in(self) -> tuple[bytes | None, str | None]:
        """See `gateway_core.contract.authenticator.Presented`."""
        return self._header, self._query

    def recognize(self, request: Message) -> Identity | None:
        """See `gateway_core.contract.authenticator.Recognizing`."""
        presented = None
        wanted = self._header
        for name, value in request.headers:
            if name == wanted:
                if presented is not None:
                    return None
                presented = value
        if presented is None or self._keys is None or self._elsewhere or (keys := self._keys.current()) is None:
            return None
        return keys.lasting.get(presented)

    def authenticate(self, request: Message) -> Identity | None:
        presented = None
        wanted = self._header
        for name, value in request.headers:
            if name == wanted:
                if presented is not None:
                    raise Unauthenticated("the request has several API keys")
                presented = value
        if self._elsewhere:
            presented = self._one(presented, request)
        if presented is None:
            return None
        assert self._keys is not None
        if (keys := self._keys.current()) is None:
            raise Overloaded("API keys can't be checked now")
        known = keys.right.get(presented) or keys.find(presented)
        if known.expires_ns and known.expires_ns <= self._now_ns():
            raise Unauthenticated(f"the API key {known.identity.claims['id']} has expired")
        return known.identity

    def _one(self, presented: bytes | None, request: Message) -> bytes | None:
        """The key in the header field or elsewhere; None without one."""
        found = [] if presented is None else [presented]
        if self._bearer:
            found += [
                value[len(_BEARER) :].strip()
                for name, value in request.headers
                if name == b"authorization" and value[: len(_BEARER)].lower() == _BEARER
                if value[len(_BEARER) :].lstrip().startswith(_PREFIX)
            ]
        if self._query is not None:
            for pair in request.url.partition("?")[2].split("&"):
                name, _, text = pair.partition("=")
                if unquote(name) == self._query:
                    found.append(unquote(text).encode())
        if len(found) > 1:
            raise Unauthenticated("the request has several API keys")
        return found[0] if found else None


def _known(key: Key) -> _Known:
    identity = Identity(f"key {key.name}", "api_key", "api_key", {"id": key.id})
    expires_ns = int(key.expires.timestamp()) * 1_000_000_000 if key.expires else 0
    return _Known(identity, bytes.fromhex(key.sha256), expires_ns)
