"""How commands and services read configs, look up what the installed plugins offer, and build a config's gateway to
look at it.

The core does it, and plugins rely on this page of it alone:

    registry = installed()
    loaded = load(common.config_paths(paths), registry)

A test adds plugins of its own: `installed({"mine": plugin})`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from .components import Components

if TYPE_CHECKING:
    from .config_extension import DocumentKind
    from .config_model import GatewayConfig
    from .config_node import Node
    from .durable import DurableNames
    from .loaded import Loaded
    from .topology import Topology

T = TypeVar("T")


class Described(Protocol):
    """A descriptor that a plugin offers, as lists and pages show it."""

    @property
    def name(self) -> str:
        """Unique among those of its kind."""

    @property
    def summary(self) -> str:
        """One sentence."""


class Registry(Components, Protocol):
    """All that plugins offer, each with the plugin (entry-point name) that offers it. It must not be changed."""

    @property
    def plugins(self) -> Mapping[str, str]:
        """The plugins, each with its distribution and version ("tidegate 0.1.0")."""

    @property
    def commands(self) -> Mapping[str, tuple[Described, str]]:
        """Commands by name."""

    @property
    def services(self) -> Mapping[str, tuple[Described, str]]:
        """Services by name."""

    @property
    def runners(self) -> Mapping[str, tuple[Described, str]]:
        """Runners by name."""

    @property
    def durable_names(self) -> Sequence[DurableNames]:
        """What finds the names that outlive a config."""


class Reader(Protocol):
    """What reads configs: the core."""

    def installed(self, more: Mapping[str, object]) -> Registry:
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

    def names(self, paths: Sequence[Path], registry: Any, sections: Sequence[str]) -> list[str]:
        """See `names`."""

    def config_files(self, folder: Path, registry: Any) -> list[Path]:
        """See `config_files`."""

    def kind_of(self, document: Node, registry: Components) -> DocumentKind | None:
        """See `kind_of`."""

    def validated(self, model: type[Any], document: Node, registry: Any, env: Mapping[str, str]) -> Any:
        """See `validated`."""


class Offline(Protocol):
    """What builds a config's gateway to look at it: the core."""

    def __call__(self, config: GatewayConfig, registry: Any) -> Topology:
        """See `offline`."""


SUFFIXES = (".yaml", ".yml")
"""Of config files."""

SHIPPED = ("tidegate", "tidegate-dev")
"""The distributions of the shipped plugins. The second is for development and need not be installed."""


def is_shipped(registry: Registry, plugin: str) -> bool:
    """Whether a plugin ships with Tidegate."""
    return registry.plugins.get(plugin, "").partition(" ")[0] in SHIPPED


def installed(more: Mapping[str, object] | None = None) -> Registry:
    """Everything that the installed plugins offer, every entry point of the group `tidegate`; and `more` plugins by
    name, objects with hooks.

    Raises `StartError` naming the plugin if one can't be imported, misspells a hook or offers a name twice.
    """
    return _reader().installed(more or {})


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
    """Like `load`, with warnings and the list of files; with more `documents`, and without some of the files. The
    `ConfigError` has the files of secrets, too: a file that is missing may come later."""
    return _reader().load_all(paths, registry, env, documents, without)


def names(paths: Sequence[Path], registry: Registry, sections: Sequence[str]) -> list[str]:
    """The names of the entries that files have in these sections, whether or not the config has faults. Raises
    `ConfigError` if a plugin can't tell the kind of a document."""
    return _reader().names(paths, registry, sections)


def config_files(folder: Path, registry: Registry) -> list[Path]:
    """The files in a folder that are read as a config. Raises `OSError`."""
    return _reader().config_files(folder, registry)


def kind_of(document: Node, registry: Components) -> DocumentKind | None:
    """The kind of a document in a config file, None if it consists of sections. Raises `ConfigError` if two kinds
    match, or if a plugin fails to say whether its kind does."""
    return _reader().kind_of(document, registry)


def validated(model: type[T], document: Node, registry: Registry, env: Mapping[str, str]) -> T:
    """A document of its own, beside those of a config, as this model: `${NAME}` is filled from `env`, and component
    references are resolved. Raises `ConfigError` with all faults."""
    found = _reader().validated(model, document, registry, env)
    assert isinstance(found, model)
    return found


def offline(config: GatewayConfig, registry: Registry) -> Topology:
    """The parts of a config's gateway, which are never started: to look at them. Nothing outside the process is
    reached: no network, no files, no observers; nobody is asked who may send. Raises `StartError` if a component can't
    be built."""
    return _offline()(config, registry)


def read_by(reader: Callable[[], Reader]) -> None:
    """Sets the reader of configs (called by the core). It is imported when the first config is read."""
    global _reader
    _reader = reader


def _reader() -> Reader:
    raise NotImplementedError("the core is not imported")  # `gateway_core` calls `read_by` when it is


def offline_by(offline: Callable[[], Offline]) -> None:
    """Sets what builds gateways to look at (called by the core). It is imported when the first one is built."""
    global _offline
    _offline = offline


def _offline() -> Offline:
    raise NotImplementedError("the core is not imported")  # `gateway_core` calls `offline_by` when it is
