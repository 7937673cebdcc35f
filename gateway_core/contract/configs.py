"""How commands and services read configs, and look up what the installed plugins offer.

The core reads configs, and plugins rely on this page of it alone:

    registry = installed()
    loaded = load(common.config_paths(paths), registry)

A test makes a registry of its own plugins from `gateway_core.config.registry.Registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .components import Components

if TYPE_CHECKING:
    from .component import Command
    from .config_model import GatewayConfig
    from .config_node import Node
    from .durable import DurableNames
    from .loaded import Loaded
    from .runners import Runner
    from .services import Service


class Registry(Components, Protocol):
    """All that plugins offer, each with the plugin (entry-point name) that offers it. It must not be changed."""

    @property
    def plugins(self) -> Mapping[str, str]:
        """The plugins, each with its distribution and version ("tidegate 0.1.0")."""

    @property
    def commands(self) -> Mapping[str, tuple[Command, str]]:
        """Commands by name."""

    @property
    def services(self) -> Mapping[str, tuple[Service, str]]:
        """Services by name."""

    @property
    def runners(self) -> Mapping[str, tuple[Runner, str]]:
        """Runners by name."""

    @property
    def durable_names(self) -> Sequence[DurableNames]:
        """What finds the names that outlive a config."""


class Reader(Protocol):
    """What reads configs: the core."""

    def installed(self) -> Registry:
        """See `installed`."""

    def load_all(
        self,
        paths: Sequence[Path],
        registry: Any,
        env: Mapping[str, str] | None = None,
        documents: Sequence[Node] = (),
        without: Collection[Path] = (),
    ) -> Loaded:
        """See `load_all`."""


SHIPPED = ("tidegate", "tidegate-dev")
"""The distributions of the shipped plugins. The second is for development and need not be installed."""


def is_shipped(registry: Registry, plugin: str) -> bool:
    """Whether a plugin ships with Tidegate."""
    return registry.plugins.get(plugin, "").partition(" ")[0] in SHIPPED


def installed() -> Registry:
    """Everything that the installed plugins offer: every entry point of the group `tidegate`.

    Raises `StartError` naming the plugin if one can't be imported, misspells a hook or offers a name twice.
    """
    return _reader().installed()


def load(paths: Sequence[Path], registry: Registry, env: Mapping[str, str] | None = None) -> GatewayConfig:
    """The config that files and directories (their `*.yaml` and `*.yml`) hold, read as one.

    `env` is what `${NAME}` is filled from, by default the process's environment. Every component reference is resolved
    (`ComponentRef.options`). Raises `ConfigError` with all faults.
    """
    return load_all(paths, registry, env).config


def load_all(
    paths: Sequence[Path],
    registry: Registry,
    env: Mapping[str, str] | None = None,
    documents: Sequence[Node] = (),
    without: Collection[Path] = (),
) -> Loaded:
    """Like `load`, with warnings and the list of files; with more `documents`, and without some of the files."""
    return _reader().load_all(paths, registry, env, documents, without)


def read_by(reader: Callable[[], Reader]) -> None:
    """Sets the reader of configs (called by the core). It is imported when the first config is read."""
    global _reader
    _reader = reader


def _reader() -> Reader:
    raise NotImplementedError("the core is not imported")  # `gateway_core` calls `read_by` when it is
