"""Loads a config: files, includes, environment, secrets, models, components, cross checks. All faults at once."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import proxy

from ..contract.components import Components
from ..contract.config_model import NAME_REMEDY, EntryConfig, GatewayConfig, SecretConfig, is_name
from ..contract.config_node import Node, Place, locate, written
from ..contract.errors import ConfigError
from ..contract.faults import near
from ..contract.interpolation import Secrets
from ..contract.loaded import Loaded
from .resolve import Resolver
from .sections import Section, sections
from .sources import Sources, gather


def load_all(
    paths: Sequence[Path],
    registry: Components,
    env: Mapping[str, str] | None = None,
    documents: Sequence[Node] = (),
    without: Collection[Path] = (),
) -> Loaded:
    """See `contract.configs.load_all`."""
    env = os.environ if env is None else env
    return Loading(gather(paths, registry, env, documents, without), registry, env).run()


class Loading:
    """One load: from merged nodes to the config. What it knows of `secrets` stands even if the config has faults."""

    def __init__(self, sources: Sources, registry: Components, env: Mapping[str, str]) -> None:
        self._sources = sources
        self._root = sources.root
        self._report = sources.report
        self._env = env
        self._sections = sections(registry)
        self._resolver = Resolver(registry, self._report)
        self.secrets: dict[str, SecretConfig] = {}
        self.used = Secrets((), lambda name: None)

    def run(self) -> Loaded:
        """The config. Raises `ConfigError` with all faults."""
        valid: dict[str, Any] = {"secrets": self._entries(self._sections["secrets"], None)}
        self.secrets = valid["secrets"]
        named = self._root.value["secrets"].value if "secrets" in self._root.value else {}
        me = proxy(self)  # no cycle: what was read is long, and not needed any more
        secrets = self.used = Secrets(named, lambda name: me._read_secret(name))
        for name, section in self._sections.items():
            if name not in ("secrets", "include"):
                valid[name] = self._entries(section, secrets)
        self._unknown_sections(secrets)
        for (name, entry), origin in self._sources.documents.origins.items():
            found = valid[name].get(entry)
            if isinstance(found, EntryConfig):
                found.came_from(origin)
        own = {name: found for name, found in valid.items() if not self._sections[name].plugin}
        offered = {name: found for name, found in valid.items() if self._sections[name].plugin}
        config = GatewayConfig.model_construct(**own).with_sections(offered)
        self._resolver.check(config)
        for name in (name for name, uses in secrets.uses.items() if not uses):
            self._report.warn("nothing uses this secret", ("secrets", name))
        if faults := self._report.faults:
            raise ConfigError(faults, self.secret_files)
        places = {
            name: {key: locate(self._root, (name, key)) for key in found}
            for name, found in valid.items()
            if self._sections[name].named
        }
        return Loaded(config, self._report.warnings, self._sources.files, places, self.secret_files)

    def _entries(self, section: Section, secrets: Secrets | None) -> Any:
        """The valid entries of a section."""
        node = self._root.value.get(section.name)
        data = None if node is None else self._report.filled(node, (section.name,), self._env, secrets)
        if not section.named:
            return self._resolver.validate(list[section.offered.model], data or [], (section.name,)) or []  # type: ignore[name-defined]
        valid: dict[str, Any] = {}
        for name, inner in (data or {}).items():
            place = (section.name, name)
            if section.plugin:  # any text may be a name there
                value = self._resolver.validate_plugins(section.offered, inner, place, section.plugin)
            else:
                if not is_name(name):
                    self._report.fault(f"`{name}` can't be a name", place, NAME_REMEDY)
                value = self._resolver.validate(section.offered.model, inner, place)
            if value is not None:
                valid[name] = value
        return valid

    def _unknown_sections(self, secrets: Secrets) -> None:
        for key, node in self._root.value.items():
            if key not in self._sections:
                self._report.filled(node, (key,), self._env, secrets)
                remedy = near(key, self._sections) or f"sections: {', '.join(f'`{k}`' for k in self._sections)}"
                self._report.fault(f"unknown section `{key}`", (key,), remedy)

    def _read_secret(self, name: str) -> str | None:
        if (config := self.secrets.get(name)) is None:
            return None
        if (config.env is None) == (config.file is None):
            self._report.fault("a secret has either `env` or `file`", ("secrets", name))
            return None
        try:
            return self.secret_value(name)
        except ValueError as e:
            field, remedy = ("file", "") if config.env is None else ("env", "set it")
            self._report.fault(str(e), ("secrets", name, field), remedy)
            return None

    def secret_value(self, name: str) -> str:
        """A secret's value. Raises `ValueError`, which says why there is none."""
        config = self.secrets[name]
        if (file := self.secret_file(name)) is None:
            if value := self._env.get(config.env or ""):
                return value
            raise ValueError(f"the environment variable `{config.env}` isn't set")
        try:
            if file.stat() and file.is_file() and (text := file.read_bytes().decode()).strip("\r\n"):
                return text.removesuffix("\n").removesuffix("\r")
        except (OSError, ValueError) as e:
            reason = e.strerror if isinstance(e, OSError) and e.strerror else "not UTF-8 text"
            raise ValueError(f"the file {config.file} can't be read: {reason}") from None
        raise ValueError(f"the file {config.file} is {'empty' if file.is_file() else 'not a regular file'}")

    def secret_file(self, name: str) -> Path | None:
        """The file that holds a secret, relative to the config file that names it; None if it is in no file."""
        file = self.secrets[name].file
        return None if file is None else Path(self._root.value["secrets"].value[name].file).parent / file

    @property
    def secret_files(self) -> list[str]:
        """The files that hold secrets."""
        return [str(file) for name in self.secrets if (file := self.secret_file(name)) is not None]

    def written(self, place: Place) -> tuple[str, str, int]:
        """The path of a place as its author wrote it, with file and line."""
        return written(self._root, place), *locate(self._root, place)
