"""Commands of plugins, listed beside the core's, and imported when they are used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from ..contract.cli.common import colours
from ..contract.errors import StartError

if TYPE_CHECKING:
    from ..contract.component import Command

PANELS = ("Run", "Look inside", "Change", "Look after data", "Try out", "This installation")
"""The headings of `tidegate --help`, in order. Others follow by name."""


FOR_DEVELOPMENT = ("conformance", "demo", "dev", "plugin", "test")
"""Commands of the distribution `tidegate-dev`, which is not installed everywhere."""


def loaded(command: Command) -> Any:
    """A plugin's command, as typer runs it."""
    app = command.load()
    if not isinstance(app, typer.Typer):
        function, app = app, typer.Typer(add_completion=False, rich_markup_mode="rich")
        app.command(command.name)(function)
    return typer.main.get_command(app)


def what_installs(error: ImportError) -> str:
    """ "needs aiokafka: install tidegate[kafka]" if this is about the optional library of a plugin, else ""."""
    from ..config.registry import Registry

    top = (error.name or "").partition(".")[0]
    try:
        offers = Registry.installed().offers() if isinstance(error, ModuleNotFoundError) else []
    except StartError:
        return ""
    extra = next((o.component.extra for o in offers if o.component.extra and top in o.component.requires), "")
    return f"needs {top}: install tidegate[{extra}]" if extra else ""


class PluginCommand(TyperGroup):
    """A placeholder for a plugin's command, which is loaded once it is invoked."""

    def __init__(self, command: Command, plugin: str) -> None:
        super().__init__(name=command.name, help=command.summary, rich_help_panel=command.panel)
        self._command = command
        self._plugin = plugin

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        try:
            real = loaded(self._command)
        except ImportError as e:
            if needs := what_installs(e):
                raise StartError(f"the command {self.name!r} {needs}") from e
            raise StartError(f"command {self.name!r} of plugin {self._plugin!r} can't be loaded: {e}") from e
        return real.make_context(info_name, args, parent=parent, **extra)


class Commands(TyperGroup):
    """The core's commands, which need no plugins, and those of plugins.

    Plugins are searched one by one until a command is found; only help reads all of them.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        for offered in self._search():
            if isinstance(offered, StartError):
                print(f"tidegate: {offered}", file=sys.stderr)
        return sorted(self.commands, key=lambda name: _place(getattr(self.commands[name], "rich_help_panel", "")))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if (known := super().get_command(ctx, cmd_name)) is not None:
            return known
        failed = None
        for offered in self._search():
            if isinstance(offered, StartError):
                failed = failed or offered
            elif offered.name == cmd_name:
                return offered
        if failed:
            raise failed
        if cmd_name in FOR_DEVELOPMENT:
            what = "pip install 'tidegate[dev]', or ./dev in a clone"
            raise StartError(f"the command {cmd_name!r} is for development: {what}")
        return None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints what typer would, without rich: its import takes longer than all the rest."""
        print(f"\n Usage: {' '.join((ctx.command_path, *self.collect_usage_pieces(ctx)))}\n\n {self.help}\n")
        panels = {"Options": [found for option in self.get_params(ctx) if (found := option.get_help_record(ctx))]}
        for name in self.list_commands(ctx):
            command, panel = self.commands[name], getattr(self.commands[name], "rich_help_panel", "")
            panels.setdefault(panel, []).append((name, " ".join((command.help or "").split("\n\n")[0].split())))
        bold, dim, end = ("\x1b[1;36m", "\x1b[2m", "\x1b[0m") if colours(sys.stdout) else ("", "", "")
        width, most = get_terminal_size().columns - 4, max(map(len, self.commands))
        for panel, rows in panels.items():
            column = most if panel != "Options" else max(len(name) for name, _ in rows)
            print(f"{dim}╭─ {panel} {'─' * (width - len(panel) - 1)}╮{end}")
            for name, text in rows:
                for i, line in enumerate(wrap(text, max(width - column - 2, 20))):
                    left = f"{bold}{'' if i else name:{column}}{end}"
                    print(f"{dim}│{end} {left}  {line:{width - column - 2}} {dim}│{end}")
            print(f"{dim}╰{'─' * (width + 2)}╯{end}")

    def _search(self) -> Iterator[PluginCommand | StartError]:
        """Adds the commands of one plugin after another, and yields the errors of plugins that fail."""
        from ..config.installed import commands

        for offered in commands():
            if isinstance(offered, StartError):
                yield offered
            elif offered[0].name not in self.commands:
                self.commands[offered[0].name] = found = PluginCommand(*offered)
                yield found


def _place(panel: str) -> tuple[int, str]:
    return (PANELS.index(panel), "") if panel in PANELS else (len(PANELS), panel)
