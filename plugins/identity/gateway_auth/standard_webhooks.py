"""The authenticator `standard_webhooks`: requests that are signed as the Standard Webhooks specification 1.0 says.

Source: https://github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md, "Signature scheme", "Webhook
headers" and "Verifying signatures".
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Iterable
from typing import Annotated, Literal

from anyio.abc import TaskGroup
from gateway_signing.signing_keys import SigningKeys
from pydantic import AfterValidator, Field, SecretStr

from gateway_core.contract.authenticator import Unauthenticated
from gateway_core.contract.component import BuildContext
from gateway_core.contract.config_node import Place
from gateway_core.contract.errors import MissingExtra, Overloaded
from gateway_core.contract.event import Message
from gateway_core.contract.identity import Identity

from .freshness import Freshness
from .hmac import MOST_SIGNATURES, only, refuse_attributes
from .signing_secrets import SignedConfig

SHORTEST = 24
"""Bytes that a secret has at least ("Signature scheme")."""
_RULE = "Standard Webhooks 1.0"

Key = tuple[Literal[b"v1", b"v1a"], bytes]
"""The version of the signatures that a key checks, and the key."""


def parse_key(text: str) -> Key:
    """A key from its text: `whsec_…` (a shared secret; the prefix may be missing) or `whpk_…` (a public key). Raises
    `ValueError`."""
    if text.startswith("whsk_"):
        raise ValueError("this is the sender's private key: use its public key, `whpk_…`, and let nobody see this one")
    public = text.startswith("whpk_")
    encoded = text.removeprefix("whpk_" if public else "whsec_")
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the secret is not base64: copy all of it, with `whsec_` or `whpk_` before it") from None
    if public and len(key) != 32:
        raise ValueError("the public key does not have 32 bytes (Ed25519)")
    if not key:
        raise ValueError("the secret is empty: anyone could sign with it")
    return (b"v1a" if public else b"v1"), key


def _readable(secret: SecretStr) -> SecretStr:
    parse_key(secret.get_secret_value())
    return secret


class StandardWebhooksConfig(SignedConfig):
    """Requests that are signed as [Standard Webhooks](https://www.standardwebhooks.com) says."""

    secrets: list[Annotated[SecretStr, AfterValidator(_readable)]] = []
    """Shared secrets (`whsec_…`) and public keys (`whpk_…`, which need the extra `encryption`); use `${secret:NAME}`.
    Any one may match: during a rotation, list the old and the new one."""
    header_prefix: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$")] = "webhook-"
    """The prefix of the header fields' names; `svix-` for senders that use Svix under its own name."""

    @property
    def sender(self) -> str:
        """The subject of who signs."""
        return f"webhooks {self.name or 'standard_webhooks'}"

    def warnings(self) -> Iterable[tuple[Place, str, str]]:
        """See `Config`."""
        for place, text, remedy in super().warnings():
            if place[0] != "secrets":
                yield place, text, remedy
        yield from self.short_secrets(lambda text: parse_key(text)[1], SHORTEST)


class StandardWebhooksAuthenticator:
    """Knows a sender by its signature. `challenge` is empty: no scheme of HTTP stands for these signatures."""

    challenge = ""

    def __init__(self, options: StandardWebhooksConfig, context: BuildContext) -> None:
        self._owner = context.owner
        self._keys = SigningKeys(options, self._verifier, context.owner, offline=context.offline)
        self._fresh = Freshness(options.window_s, options.remember, context.clock.now_ns)
        self._id, self._timestamp, self._signature = (
            f"{options.header_prefix}{word}".encode() for word in ("id", "timestamp", "signature")
        )
        self._attributes = options.unsigned_attributes
        self._identity = Identity(options.sender, "standard_webhooks", "service_account")

    async def start(self, tasks: TaskGroup) -> None:
        """Nothing to do."""

    async def stop(self) -> None:
        """Nothing to do."""

    def authenticate(self, request: Message) -> Identity | None:
        """See `gateway_core.contract.authenticator.Authenticator`."""
        written = only(request, self._signature)
        if written is None:
            return None
        if not self._attributes:
            refuse_attributes(request)
        id, timestamp = only(request, self._id), only(request, self._timestamp)
        if not id or timestamp is None:
            raise Unauthenticated("the identifier or the timestamp of the webhook is missing", rule=_RULE)
        if b"." in id:  # it could move the border to the timestamp ("Signature scheme")
            raise Unauthenticated("the identifier of the webhook contains a dot", rule=_RULE)
        self._fresh.check(timestamp)
        content = b"%s.%s.%s" % (id, timestamp, request.body or b"")
        signatures = [text.partition(b",") for text in written.split(b" ", MOST_SIGNATURES)[:MOST_SIGNATURES]]
        if not (keys := self._keys.current()):
            raise Overloaded("signatures can't be checked now")
        for version, fits in keys:
            for name, _, text in signatures:
                if name == version and (signature := _decoded(text)) and fits(signature, content):
                    self._fresh.take(content, timestamp)
                    return self._identity
        raise Unauthenticated("no signature fits the body and a secret", rule=_RULE)

    def _verifier(self, text: str) -> tuple[bytes, Callable[[bytes, bytes], bool]]:
        version, key = parse_key(text)
        if version == b"v1":
            return version, lambda signature, content: hmac.compare_digest(
                signature, hmac.digest(key, content, "sha256")
            )
        return version, _ed25519(key, self._owner)


def _ed25519(key: bytes, owner: str) -> Callable[[bytes, bytes], bool]:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        text = f"{owner}: public keys (whpk_…) need the extra `encryption`: pip install 'tidegate[encryption]'"
        raise MissingExtra(text) from None
    public = Ed25519PublicKey.from_public_bytes(key)

    def fits(signature: bytes, content: bytes) -> bool:
        try:
            public.verify(signature, content)
        except InvalidSignature:
            return False
        return True

    return fits


def _decoded(text: bytes) -> bytes | None:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None
