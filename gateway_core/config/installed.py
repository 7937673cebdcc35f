"""The installed plugins, and how their hooks are called. No other module uses pluggy for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import TYPE_CHECKING, Any

import pluggy

from ..contract import hookspecs
from ..contract.configs import SHIPPED
from ..contract.errors import StartError
from ..contract.hookspecs import GROUP

if TYPE_CHECKING:
    from ..contract.component import Command


class Plugins:
    """Calls the hooks of one plugin at a time, so that a failing plugin is named and does not hide the others."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)

    def add(self, name: str, plugin: object) -> None:
        """Takes a plugin in."""
        self._manager.register(plugin, name)

    def ask(self, hook: str, plugin: str) -> list[Any]:
        """What a plugin offers by a hook. Raises `StartError` with its name if it fails."""
        for impl in getattr(self._manager.hook, hook).get_hookimpls():
            if impl.plugin_name == plugin:
                try:
                    return list(impl.function() or ())
                except Exception as e:
                    raise StartError(f"plugin {plugin!r} failed in {hook}: {type(e).__name__}: {e}") from e
        return []

    def check(self) -> None:
        """Raises `StartError` if a plugin implements a hook that does not exist (a misspelt name is silent else)."""
        try:
            self._manager.check_pending()
        except pluggy.PluginValidationError as e:
            raise StartError(f"a plugin implements an unknown hook: {e}") from e


def loaded(point: EntryPoint) -> object:
    """Imports a plugin. Raises `StartError` with its name if it can't be imported."""
    try:
        plugin: object = point.load()
    except Exception as e:
        raise StartError(f"plugin {point.name!r} ({point.value}) can't be imported: {e}") from e
    return plugin


def commands() -> Iterator[tuple[Command, str] | StartError]:
    """The commands of all plugins, each with its plugin's name; shipped plugins come first.

    A plugin is imported when its turn comes, and only its commands are read, so a search for one command can stop
    there. A plugin that fails yields its error instead.
    """
    plugins = Plugins()
    for point in _shipped_first():
        try:
            plugins.add(point.name, loaded(point))
            offered = plugins.ask("gateway_commands", point.name)
        except StartError as e:
            yield e
        else:
            yield from ((command, point.name) for command in offered)


def _shipped_first() -> Iterator[EntryPoint]:
    """All entry points. Those of our own distributions come first, without scanning all other installed ones."""
    shipped: list[EntryPoint] = []
    for name in SHIPPED:
        with suppress(PackageNotFoundError):
            shipped += distribution(name).entry_points.select(group=GROUP)
    shipped.sort(key=lambda p: p.name)
    yield from shipped
    yield from sorted(set(entry_points(group=GROUP)) - set(shipped), key=lambda p: p.name)


def plugin_with(package: str) -> str | None:
    """The plugin that has this package, for messages: its name, and its distribution if that is not ours."""
    for point in _shipped_first():
        if point.value.partition(":")[0].partition(".")[0] == package:
            name = point.dist.name if point.dist is not None else SHIPPED[0]
            return f"the plugin {point.name}" + ("" if name == SHIPPED[0] else f" of {name}, not in {SHIPPED[0]}")
    return None
