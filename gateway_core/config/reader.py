"""The core's side of `gateway_core.contract.configs`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ..contract.config_node import Node
from ..contract.loaded import Loaded
from .load import load_all
from .registry import Registry


class ConfigReader:
    """Reads configs with this core."""

    def installed(self) -> Registry:
        """See `configs.installed`."""
        return Registry.installed()

    def load_all(
        self,
        paths: Sequence[Path],
        registry: Registry,
        env: Mapping[str, str] | None = None,
        documents: Sequence[Node] = (),
        without: Collection[Path] = (),
    ) -> Loaded:
        """See `configs.load_all`."""
        return load_all(paths, registry, env, documents, without)
