"""The core's side of `gateway_core.contract.configs`."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..contract.components import Components
from ..contract.config_extension import DocumentKind
from ..contract.config_node import Node
from ..contract.errors import ConfigError
from ..contract.loaded import Loaded
from .documents import kind_of
from .load import load_all
from .registry import Registry
from .report import Report
from .resolve import Resolver
from .sources import config_files, gather


class ConfigReader:
    """Reads configs with this core."""

    def installed(self, more: Mapping[str, object]) -> Registry:
        """See `configs.installed`."""
        registry = Registry.installed()
        for name, plugin in more.items():
            registry.add(name, plugin)
        return registry

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

    def names(self, paths: Sequence[Path], registry: Registry, sections: Sequence[str]) -> list[str]:
        """See `configs.names`."""
        root = gather(paths, registry, os.environ).root.value
        return [str(name) for section in sections if section in root for name in root[section].value]

    def config_files(self, folder: Path, registry: Registry) -> list[Path]:
        """See `configs.config_files`."""
        return config_files(folder, registry)

    def kind_of(self, document: Node, registry: Components) -> DocumentKind | None:
        """See `configs.kind_of`."""
        return kind_of(document, registry)

    def validated(self, model: type[Any], document: Node, registry: Registry, env: Mapping[str, str]) -> Any:
        """See `configs.validated`."""
        report = Report(document)
        found = Resolver(registry, report).validate(model, report.filled(document, (), env), ())
        if report.faults:
            raise ConfigError(report.faults)
        return found
