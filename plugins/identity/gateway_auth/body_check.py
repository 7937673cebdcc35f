"""Checks of configs that name `hmac` or `standard_webhooks`."""

from __future__ import annotations

from collections.abc import Iterator

from gateway_access.config import AccessConfig

from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_model import GatewayConfig

from .mtls_check import sources
from .signing_secrets import SignedConfig


def check(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """A fault for each source where there is no body to sign."""
    for place, ref in sources(config):
        options = ref.options
        if not isinstance(options, AccessConfig) or options.signable:
            continue
        for i, authenticator in enumerate(options.authenticate):
            if isinstance(authenticator.options, SignedConfig):
                text = f"`{authenticator.name}` checks the signature of a body, and senders to `{ref.name}` sign none"
                remedy = "take `api_key`, `basic`, `mtls` or `oidc`, or an ingress of HTTP"
                yield ConfigFinding(text, (*place, ref.name, "authenticate", i), remedy)
