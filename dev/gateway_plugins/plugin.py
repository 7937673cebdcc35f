"""The plugin's hook: the command `tidegate plugin`."""

from __future__ import annotations

from typing import Any

from gateway_core.contract.component import Command
from gateway_core.contract.hookspecs import hookimpl


def _load() -> Any:
    from .command import app

    return app


@hookimpl
def gateway_commands() -> list[Command]:
    return [Command("plugin", "Write a plugin's package, and check one.", _load, panel="Try out")]
