"""What the plugin offers: the channel `log`, and the commands `log`, `backup` and `restore`."""

from __future__ import annotations

from typing import Any

from gateway_core.component import BuildContext, Command, Component
from gateway_core.hookspecs import hookimpl

from .config import LogConfig


def _build(config: LogConfig, context: BuildContext) -> Any:
    from .channel import LogChannel

    return LogChannel(config, context)


def _commands() -> Any:
    from .commands import app

    return app


def _backup() -> Any:
    from .backup_commands import backup_app

    return backup_app


def _restore() -> Any:
    from .backup_commands import restore_app

    return restore_app


@hookimpl
def gateway_channels() -> list[Component]:
    return [Component("log", "Keeps events in a durable log on this machine's disk (SQLite).", LogConfig, _build)]


@hookimpl
def gateway_commands() -> list[Command]:
    return [
        Command("log", "Look into the durable log and repair it: info, verify, repair, quarantine, export.", _commands),
        Command("backup", "Copy a gateway's data, while it runs or not.", _backup),
        Command("restore", "Bring a backup back.", _restore),
    ]
