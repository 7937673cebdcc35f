"""What the plugin offers: the command `tidegate demo`."""

from __future__ import annotations

from typing import Any

from gateway_core.component import Command
from gateway_core.hookspecs import hookimpl


def _load() -> Any:
    from .command import app

    return app


@hookimpl
def gateway_commands() -> list[Command]:
    return [Command("demo", "Stream real flight records through a gateway and check that nothing is lost.", _load)]
