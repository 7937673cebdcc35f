"""The plugin's hooks."""

from __future__ import annotations

from typing import Any

from gateway_core.contract.component import Command
from gateway_core.contract.hookspecs import hookimpl


def _load() -> Any:
    from .cli.app import audit

    return audit


@hookimpl
def gateway_commands() -> list[Command]:
    summary = "Show the audit log: who changed the gateway, and who was refused."
    return [Command("audit", summary, _load, panel="Look inside")]
