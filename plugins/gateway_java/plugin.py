"""What the plugin offers: the command `tidegate dev`."""

from __future__ import annotations

from typing import Any

from gateway_core.component import Command
from gateway_core.hookspecs import hookimpl


def _load() -> Any:
    from .commands import app

    return app


@hookimpl
def gateway_commands() -> list[Command]:
    return [Command("dev", "Run what a gateway needs on this machine, for trying things out: a Kafka broker.", _load)]
