"""Checks of configs that know several senders by their signatures."""

from __future__ import annotations

from collections.abc import Iterator

from gateway_access.compared import PlacedAuthenticator, compared

from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_model import GatewayConfig

from .hmac_config import HmacConfig
from .signing_secrets import SignedConfig
from .standard_webhooks import StandardWebhooksConfig


def check(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """A warning of different secrets that prove the same subject."""
    told = set()
    for one, other in compared(config):
        subject = _subject(one)
        if subject is None or subject != _subject(other) or other.place in told or _secrets(one) == _secrets(other):
            continue
        told.add(other.place)
        text = f"another secret proves the same sender, `{subject}`"
        yield ConfigFinding(text, other.place, "give each sender a `name`", warning=True)


def _subject(found: PlacedAuthenticator) -> str | None:
    options = found.ref.options
    return options.sender if isinstance(options, HmacConfig | StandardWebhooksConfig) else None


def _secrets(found: PlacedAuthenticator) -> object:
    options = found.ref.options
    assert isinstance(options, SignedConfig)
    return {s.get_secret_value() for s in options.secrets}, set(options.secret_files)
