"""The plugin's hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Command, Component
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from .config import ApiKeyConfig, BasicConfig


def _api_key(options: ApiKeyConfig, context: BuildContext) -> Any:
    from .api_key import ApiKeyAuthenticator

    return ApiKeyAuthenticator(options, context)


def _basic(options: BasicConfig, context: BuildContext) -> Any:
    from .basic import BasicAuthenticator

    return BasicAuthenticator(options, context)


@hookimpl
def gateway_authenticators() -> list[Component]:
    from .config import ApiKeyConfig, BasicConfig

    return [
        Component("api_key", "API keys, kept as hashes in a file (`tidegate auth key`).", ApiKeyConfig, _api_key),
        Component("basic", "User names and passwords (HTTP Basic authentication, RFC 7617).", BasicConfig, _basic),
    ]


def _auth() -> Any:
    from .cli.app import auth

    return auth


@hookimpl
def gateway_commands() -> list[Command]:
    return [Command("auth", "Manage API keys and passwords of senders.", _auth, panel="Look after data")]
