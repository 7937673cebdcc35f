"""Loads a config: files, includes, environment, secrets, models, components, cross checks. All faults at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError

from ..contract.component import ObserverRef
from ..contract.config_node import Node
from ..contract.errors import ConfigError, Fault
from .explain import NAME_RULE
from .faults import in_order, near
from .interpolate import Interpolator, Secrets
from .model import BridgeConfig, BrokerConfig, EntryConfig, GatewayConfig, Name, SecretConfig, TriggerConfig
from .places import locate
from .registry import Registry
from .report import Report
from .resolve import Resolver
from .sections import section_names
from .sources import Sources, gather

_SECTIONS: dict[str, type[BaseModel]] = {
    "brokers": BrokerConfig,
    "triggers": TriggerConfig,
    "bridges": BridgeConfig,
    "secrets": SecretConfig,
}
_NAME: TypeAdapter[str] = TypeAdapter(Name)


class _Observers(RootModel[list[ObserverRef]]):
    """The section `observers`."""


@dataclass(frozen=True)
class Loaded:
    """A config with its warnings, and where it was read from."""

    config: GatewayConfig
    warnings: list[Fault]
    files: list[str]
    places: Mapping[str, Mapping[str, tuple[str, int]]] = field(default_factory=dict)
    """File and line of each entry: by section, then by name."""

    def place(self, section: str, name: str) -> tuple[str, int] | None:
        """File and line of an entry; None if there is none of this name."""
        return self.places.get(section, {}).get(name)


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
    """Like `load`, with warnings and the list of files. `documents` are added to the files, and the files in `without`
    are left out, to see what the config would be."""
    env = os.environ if env is None else env
    sources = gather(paths, registry, env, documents, without)
    return _Loading(sources, registry, env).run()


class _Loading:
    """One load: from merged nodes to the config."""

    def __init__(self, sources: Sources, registry: Registry, env: Mapping[str, str]) -> None:
        self._sources = sources
        self._env = env
        self._report = Report(sources.root, sources.documents.faulty)
        self._registry = registry
        self._resolver = Resolver(registry, self._report)
        self._secrets = Secrets()
        self._valid: dict[str, Any] = {}

    def run(self) -> Loaded:
        root = self._sources.root.value
        data = self._plain([k for k in root if k != "secrets"], self._prepare_secrets())
        self._unknown_sections(data)
        for section, model in _SECTIONS.items():
            if section != "secrets":
                self._valid[section] = self._named(section, model, data.get(section, {}))
        observers = self._resolver.validate(_Observers, data.get("observers", []), ("observers",))
        self._valid["observers"] = observers.root if isinstance(observers, _Observers) else []
        for (section, name), origin in self._sources.documents.origins.items():
            entry = self._valid.get(section, {}).get(name)
            if isinstance(entry, EntryConfig):
                entry.came_from(origin)
        extended = {section: self._extended(section, data.get(section, {})) for section in self._registry.sections}
        config = GatewayConfig.model_construct(**self._valid).with_sections(extended)
        self._resolver.check(config)
        for name in self._secrets.unused:
            self._report.warn("nothing uses this secret", ("secrets", name))
        faults = in_order([*self._sources.faults, *self._report.faults(self._secrets)])
        if faults:
            raise ConfigError(faults)
        warnings = in_order([*self._sources.warnings, *self._report.warnings(self._secrets)])
        places = {
            section: {name: locate(self._sources.root, (section, name)) for name in entries}
            for section, entries in {**{s: self._valid[s] for s in _SECTIONS}, **extended}.items()
        }
        return Loaded(config, warnings, self._sources.files, places)

    def _plain(self, sections: list[str], secrets: Secrets | None) -> dict[str, Any]:
        interpolator = Interpolator(self._env, secrets, self._report.fault)
        data = {s: interpolator.plain(self._sources.root.value[s], (s,)) for s in sections}
        self._report.take(interpolator)
        return data

    def _named(self, section: str, model: type[BaseModel], data: dict[str, Any]) -> dict[str, Any]:
        valid: dict[str, Any] = {}
        for name, inner in data.items():
            path = (section, name)
            try:
                _NAME.validate_python(name)
            except ValidationError:
                self._report.fault(f"`{name}` can't be a name", path, f"a name is made of {NAME_RULE}")
            value = self._resolver.validate(model, inner, path)
            if value is not None:
                valid[name] = value
        return valid

    def _extended(self, section: str, data: dict[str, Any]) -> Mapping[str, Any]:
        """The entries of a plugin's section. Any text may be a name."""
        offered, plugin = self._registry.sections[section]
        model = RootModel[dict[str, offered.entry]]  # type: ignore[name-defined]
        found = self._resolver.validate_plugins(model, data, (section,), plugin) if data else None
        return found.root if isinstance(found, RootModel) else {}

    def _unknown_sections(self, data: dict[str, Any]) -> None:
        known = section_names(self._registry)
        for key in data:
            if key not in known:
                remedy = near(key, known) or f"sections: {', '.join(f'`{k}`' for k in known)}"
                self._report.fault(f"unknown section `{key}`", (key,), remedy)

    def _prepare_secrets(self) -> Secrets:
        data = self._plain([s for s in ("secrets",) if s in self._sources.root.value], None)
        found = self._named("secrets", SecretConfig, data.get("secrets", {}))
        self._valid["secrets"] = found
        readers = {name: self._reader(name, found.get(name)) for name in data.get("secrets", {})}
        self._secrets = Secrets(readers)
        return self._secrets

    def _reader(self, name: str, config: SecretConfig | None) -> Callable[[], str | None]:
        def read() -> str | None:
            return None if config is None else self._read_secret(name, config)

        return read

    def _read_secret(self, name: str, config: SecretConfig) -> str | None:
        path = ("secrets", name)
        if (config.env is None) == (config.file is None):
            self._report.fault("a secret has either `env` or `file`", path)
        elif config.env is not None:
            if value := self._env.get(config.env):
                return value
            self._report.fault(f"the environment variable `{config.env}` isn't set", (*path, "env"), "set it")
        elif config.file is not None:
            file = Path(self._sources.root.value["secrets"].value[name].file).parent / config.file
            try:
                if value := file.read_bytes().decode().removesuffix("\n").removesuffix("\r"):
                    return value
                self._report.fault(f"the file {config.file} is empty", (*path, "file"))
            except (OSError, ValueError) as e:
                reason = e.strerror if isinstance(e, OSError) and e.strerror else "not UTF-8 text"
                self._report.fault(f"the file {config.file} can't be read: {reason}", (*path, "file"))
        return None
