"""The channel `log`, and the commands `log`, `backup` and `restore`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext, Command, Component
from gateway_core.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    from gateway_core.contract.durable import DurableNames

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
    from . import guarantees
    from .config import LogConfig

    summary = "Keeps events in a durable log on this machine's disk (SQLite)."
    return [Component("log", summary, LogConfig, _build, guarantees=guarantees.CHANNEL)]


@hookimpl
def gateway_commands() -> list[Command]:
    summary = "Inspect and repair the durable log: info, verify, repair, quarantine, export."
    panel = "Look after data"
    return [
        Command("log", summary, _commands, panel),
        Command("backup", "Back up a gateway's data, even while it runs.", _backup, panel),
        Command("restore", "Restore a backup.", _restore, panel),
    ]


@hookimpl
def gateway_durable_names() -> list[DurableNames]:
    from gateway_core.contract.durable import DurableNames

    from . import durable

    return [DurableNames("log", durable.names, durable.remove, earlier=durable.earlier)]
