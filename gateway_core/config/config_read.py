"""A config as it was read from files before the gateway started."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from ..contract.loaded import Loaded
from ..contract.settings import Settings
from .load import load_all
from .registry import Registry


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
