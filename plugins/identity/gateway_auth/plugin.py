"""The plugin's hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Command, Component
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway_core.contract.config_extension import ConfigFinding
    from gateway_core.contract.config_model import GatewayConfig

    from .config import ApiKeyConfig, BasicConfig
    from .hmac_config import HmacConfig
    from .mtls import MtlsConfig
    from .standard_webhooks import StandardWebhooksConfig


def _api_key(options: ApiKeyConfig, context: BuildContext) -> Any:
    from .api_key import ApiKeyAuthenticator

    return ApiKeyAuthenticator(options, context)


def _basic(options: BasicConfig, context: BuildContext) -> Any:
    from .basic import BasicAuthenticator

    return BasicAuthenticator(options, context)


def _hmac(options: HmacConfig, context: BuildContext) -> Any:
    from .hmac import HmacAuthenticator

    return HmacAuthenticator(options, context)


def _standard_webhooks(options: StandardWebhooksConfig, context: BuildContext) -> Any:
    from .standard_webhooks import StandardWebhooksAuthenticator

    return StandardWebhooksAuthenticator(options, context)


def _mtls(options: MtlsConfig, context: BuildContext) -> Any:
    from .mtls import MtlsAuthenticator

    return MtlsAuthenticator(options, context)


def _api_key_config() -> type[BaseModel]:
    from .config import ApiKeyConfig

    return ApiKeyConfig


def _basic_config() -> type[BaseModel]:
    from .config import BasicConfig

    return BasicConfig


def _hmac_config() -> type[BaseModel]:
    from .hmac_config import HmacConfig

    return HmacConfig


def _mtls_config() -> type[BaseModel]:
    from .mtls import MtlsConfig

    return MtlsConfig


def _standard_webhooks_config() -> type[BaseModel]:
    from .standard_webhooks import StandardWebhooksConfig

    return StandardWebhooksConfig


@hookimpl
def gateway_authenticators() -> list[Component]:
    webhooks = "Requests signed as Standard Webhooks 1.0 says (HMAC-SHA256 or Ed25519)."
    return [
        Component("api_key", "API keys, kept as hashes in a file (`tidegate auth key`).", _api_key_config, _api_key),
        Component("basic", "User names and passwords (HTTP Basic authentication, RFC 7617).", _basic_config, _basic),
        Component(
            "hmac", "Requests signed with a shared secret: GitHub, Stripe, Slack, any other.", _hmac_config, _hmac
        ),
        Component("standard_webhooks", webhooks, _standard_webhooks_config, _standard_webhooks),
        Component("mtls", "Client certificates, by their names.", _mtls_config, _mtls),
    ]


def _check(config: GatewayConfig) -> Iterable[ConfigFinding]:
    from gateway_access.compared import names_any

    if not names_any(config, ("hmac", "standard_webhooks", "mtls")):
        return
    from . import body_check, mtls_check, signing_check

    yield from body_check.check(config)
    yield from mtls_check.check(config)
    yield from signing_check.check(config)


@hookimpl
def gateway_config_checks() -> list[Callable[[GatewayConfig], Iterable[ConfigFinding]]]:
    return [_check]


def _auth() -> Any:
    from .cli.app import auth

    return auth


@hookimpl
def gateway_commands() -> list[Command]:
    return [Command("auth", "Manage API keys and passwords of senders.", _auth, panel="Look after data")]
