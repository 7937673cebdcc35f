"""The options of signatures, as senders need them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Annotated

from gateway_signing.hmac_scheme import HmacScheme
from gateway_signing.signing_keys import SecretsConfig
from pydantic import AfterValidator, Field, SecretStr

from gateway_core.contract.config_node import Place

SHORTEST_KEY = 24
"""Bytes that a secret of Standard Webhooks has at least ("Signature scheme")."""


def webhook_key(text: str) -> bytes:
    """The key of a secret, `whsec_` and base64; the prefix may be missing. Raises `ValueError`."""
    if text.startswith(("whsk_", "whpk_")):
        raise ValueError("keys of Ed25519 (whsk_, whpk_) are not supported for sending: use a shared secret, whsec_…")
    encoded = text.removeprefix("whsec_")
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the secret is not base64: copy all of it, with `whsec_` before it") from None
    if not key:
        raise ValueError("the secret is empty")
    return key


def _readable(secret: SecretStr) -> SecretStr:
    webhook_key(secret.get_secret_value())
    return secret


class HmacSenderConfig(SecretsConfig, HmacScheme):
    """A signature with a shared secret (HMAC, RFC 2104), in the scheme that the receiver knows. With `signature_field`
    there is one signature for each secret; otherwise the first secret signs."""

    def warnings(self) -> Iterable[tuple[Place, str, str]]:
        """See `Config`."""
        yield from self.short_secrets(str.encode)
        yield from self.outdated()


class WebhooksSenderConfig(SecretsConfig):
    """A signature as [Standard Webhooks](https://www.standardwebhooks.com) says. The identifier is the same for every
    attempt to deliver an event, and the timestamp that of the attempt. There is one signature for each secret."""

    secrets: list[Annotated[SecretStr, AfterValidator(_readable)]] = []
    """The secrets (`whsec_…`); use `${secret:NAME}`. While one replaces another, both are here."""
    header_prefix: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$")] = "webhook-"
    """What the names of the header fields begin with; `svix-` for receivers that expect these."""

    def warnings(self) -> Iterable[tuple[Place, str, str]]:
        """See `Config`."""
        yield from self.short_secrets(webhook_key, SHORTEST_KEY)
