"""A config as it was read from files, and the service that changes a running gateway to another one."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import anyio

from ..config.load import load_all
from ..config.registry import Registry
from ..contract.config_model import GatewayConfig
from ..contract.config_node import Node, Place
from ..contract.errors import Fault
from ..contract.loaded import Loaded
from ..contract.settings import Settings


@dataclass(frozen=True, slots=True)
class ConfigRead:
    """A config as it was read before the gateway started, at `since_ns` (Unix time) or later."""

    files: list[Path]
    settings: Settings
    registry: Registry
    loaded: Loaded
    since_ns: int


def read_config(files: list[Path], settings: Settings, registry: Registry) -> ConfigRead:
    """Reads the config's files, and those that plugins keep. Raises `ConfigError` and `StartError`."""
    since_ns = time.time_ns()
    loaded = load_all([*files, *registry.config_files(settings)], registry)
    return ConfigRead(files, settings, registry, loaded, since_ns)


@runtime_checkable
class Reloader(Protocol):
    """The service `reload`. `enabled` is False if the gateway's config must not change: it has no files, or `reload` is
    off. `loaded` is the config in use, None if it came from no files. Whatever uses or changes files has the `lock`."""

    enabled: bool
    loaded: Loaded | None
    lock: anyio.Lock

    def ask(self) -> None:
        """Requests a reload. Several requests before it starts are one."""

    async def reload_locked(self) -> list[Fault]:
        """Reads the files again and uses them. Returns the faults; a config with faults changes nothing."""

    async def load(self, documents: Sequence[Node] = (), without: Collection[Path] = ()) -> Loaded:
        """Reads the files, with more documents and without some files (`load_all`). Raises `ConfigError`."""

    async def change(
        self, config: GatewayConfig, commit: Callable[[], None] | None = None
    ) -> tuple[str, dict[Place, str]]:
        """Changes the running gateway to another config: only what changed is restarted. Returns what changed, and what
        could not be started, by its place (everything else runs; the next reload tries that again). Raises
        `ConfigError` or `StartError` if nothing was done.

        `commit` runs in a thread once the config is known to be possible, before anything changes: it saves the config
        for the next start. Its exceptions are passed on.
        """

    def took(self, loaded: Loaded, changes: str, failed: Mapping[Place, str], began_ns: int) -> list[Fault]:
        """The gateway now runs this config, except for what failed to start; it was read at `began_ns` or later."""
