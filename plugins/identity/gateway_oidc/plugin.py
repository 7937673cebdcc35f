"""The plugin's hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Component
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway_core.contract.config_extension import ConfigFinding
    from gateway_core.contract.config_model import GatewayConfig

    from .config import OidcConfig


def _build(options: OidcConfig, context: BuildContext) -> Any:
    from .authenticator import OidcAuthenticator

    return OidcAuthenticator(options, context)


def _config() -> type[BaseModel]:
    from .config import OidcConfig

    return OidcConfig


@hookimpl
def gateway_authenticators() -> list[Component]:

    return [
        Component(
            "oidc",
            "Takes signed tokens (JWT) that an OpenID Connect or OAuth 2.0 issuer issued.",
            _config,
            _build,
            extra="oidc",
            requires=("joserfc",),
        )
    ]


def _check(config: GatewayConfig) -> Iterable[ConfigFinding]:
    from gateway_access.compared import names_any

    if not names_any(config, ("oidc",)):
        return ()
    from .config_check import check

    return check(config)


@hookimpl
def gateway_config_checks() -> list[Callable[[GatewayConfig], Iterable[ConfigFinding]]]:
    return [_check]
