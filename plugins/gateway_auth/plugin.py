"""The plugin's hooks."""

from __future__ import annotations

from typing import Any

from gateway_core.contract.component import Command
from gateway_core.contract.hookspecs import hookimpl


def _auth() -> Any:
    from .cli.app import auth

    return auth


@hookimpl
def gateway_commands() -> list[Command]:
    return [Command("auth", "Manage API keys and passwords of senders.", _auth, panel="Look after data")]
