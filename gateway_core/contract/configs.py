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

if TYPE_CHECKING:
    from .component import BuildContext, Command, ComponentRef, Kind
    from .config_extension import ConfigSection, DocumentKind
    from .config_model import GatewayConfig
    from .config_node import Node
    from .durable import DurableNames
    from .loaded import Loaded
    from .offer import Offer
    from .runners import Runner
    from .services import Service
    from .settings import Settings


class Registry(Protocol):
    """All that plugins offer, each with the plugin (entry-point name) that offers it. It must not be changed."""

    @property
    def plugins(self) -> Mapping[str, str]:
        """The plugins, each with its distribution and version ("tidegate 0.1.0")."""

    @property
    def commands(self) -> Mapping[str, tuple[Command, str]]:
        """Commands by name."""

    @property
    def sections(self) -> Mapping[str, tuple[ConfigSection, str]]:
        """Sections of a config besides the gateway's own, by name."""

    @property
    def documents(self) -> Mapping[str, tuple[DocumentKind, str]]:
        """Kinds of documents, by name."""

    @property
    def services(self) -> Mapping[str, tuple[Service, str]]:
        """Services by name."""

    @property
    def runners(self) -> Mapping[str, tuple[Runner, str]]:
        """Runners by name."""

    @property
    def durable_names(self) -> Sequence[DurableNames]:
        """What finds the names that outlive a config."""

    def offers(self, kind: Kind | None = None) -> list[Offer]:
        """All components (of one kind), sorted by kind and name. For `dead_letter`, sinks are included."""

    def find(self, kind: Kind, name: str) -> Offer | None:
        """The component of this kind and name; a dead letter may be any sink."""

    def by_scheme(self, kind: Kind, url: str) -> str | None:
        """The name of the component that a URL stands for; None if no component has its scheme."""

    def suggest(self, kind: Kind, name: str) -> str:
        """The remedy for an unknown name: the nearest one, or all there are."""

    def build(self, ref: ComponentRef, context: BuildContext) -> Any:
        """Builds a component. Raises `MissingExtra` or `StartError`, naming the owner in the config."""

    def config_files(self, settings: Settings) -> list[Path]:
        """The config files that plugins keep in the data directory. Raises `StartError`."""


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


def installed() -> Registry:
    """What everything that is installed offers: every entry point of the group `tidegate`.

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
    """The core says what reads configs. It is imported when the first one is read."""
    global _reader
    _reader = reader


def _reader() -> Reader:
    raise NotImplementedError("the core is not imported")  # `gateway_core` calls `read_by` when it is
