"""What reads configs sees of what is installed: all components, and what plugins add to configs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from .component import ComponentBuilder, Kind

if TYPE_CHECKING:
    from .config_extension import ConfigFinding, ConfigSection, DocumentKind
    from .config_model import GatewayConfig
    from .offer import Offer
    from .settings import Settings


class Components(ComponentBuilder, Protocol):
    """All components by kind and name, and the sections, documents and checks of configs. It must not be changed."""

    @property
    def sections(self) -> Mapping[str, tuple[ConfigSection, str]]:
        """Sections of a config besides the gateway's own by name, each with the plugin that offers it."""

    @property
    def documents(self) -> Mapping[str, tuple[DocumentKind, str]]:
        """Kinds of documents in config files, each with the plugin that offers it."""

    @property
    def config_checks(self) -> Sequence[tuple[Callable[[GatewayConfig], Iterable[ConfigFinding]], str]]:
        """Checks of a whole config, each with the plugin that offers it."""

    def offers(self, kind: Kind | None = None) -> list[Offer]:
        """All components (of one kind), sorted by kind and name. For `dead_letter`, sinks are included."""

    def find(self, kind: Kind, name: str) -> Offer | None:
        """The component of this kind and name; a dead letter may be any sink."""

    def by_scheme(self, kind: Kind, url: str) -> str | None:
        """The name of the component that a URL stands for; None if no component has its scheme."""

    def scheme(self, kind: Kind) -> str | None:
        """The first scheme of the URLs that stand for components of this kind, None if there is none."""

    def suggest(self, kind: Kind, name: str) -> str:
        """The remedy for an unknown name: the nearest one, or all there are."""

    def config_files(self, settings: Settings) -> list[Path]:
        """The config files that plugins keep in the data directory. Raises `StartError`."""
