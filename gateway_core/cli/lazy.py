"""Plugin commands beside our own: known by name and sentence, imported when they are used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from ..errors import StartError

if TYPE_CHECKING:
    from ..component import Command

PANEL = "Commands of plugins"


class PluginCommand(TyperGroup):
    """Stands in for a plugin's command until it is invoked; then it is that command."""

    def __init__(self, command: Command, plugin: str) -> None:
        super().__init__(name=command.name, help=command.summary, rich_help_panel=PANEL)
        self._command = command
        self._plugin = plugin

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        try:
            app = self._command.load()
        except ImportError as e:
            raise StartError(f"command {self.name!r} of plugin {self._plugin!r} can't be loaded: {e}") from e
        real = typer.main.get_command(app)
        return real.make_context(info_name, args, parent=parent, **extra)


class Commands(TyperGroup):
    """Our own commands first. Plugins are asked only for help, or for a name that isn't ours: our own start fast."""

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        try:
            return [*own, *sorted(name for name in _offered() if name not in own)]
        except StartError as e:
            print(f"tidegate: {e}", file=sys.stderr)
            return own

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if (own := super().get_command(ctx, cmd_name)) is not None:
            return own
        offered = _offered().get(cmd_name)
        return PluginCommand(*offered) if offered else None


def _offered() -> dict[str, tuple[Command, str]]:
    from ..registry import Registry

    return Registry.installed().commands
