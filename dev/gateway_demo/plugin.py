"""The plugin's hook: the command `tidegate demo`."""

from __future__ import annotations

from typing import Any

from gateway_core.contract.component import Command
from gateway_core.contract.hookspecs import hookimpl


def _load() -> Any:
    from .command import app

    return app


@hookimpl
def gateway_commands() -> list[Command]:
    summary = "Stream real flight records through a gateway and check that nothing is lost."
    return [Command("demo", summary, _load, panel="Try out")]
