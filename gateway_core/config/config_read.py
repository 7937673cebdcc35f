"""Reads a config before the gateway starts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import cast

from ..contract.runners import ConfigRead
from ..contract.settings import Settings
from .load import load_all
from .registry import Registry


def read_config(files: list[Path], settings: Settings, registry: Registry) -> ConfigRead:
    """Reads the config's files, and those that plugins keep. Raises `ConfigError` and `StartError`."""
    since_ns = time.time_ns()
    loaded = load_all([*files, *registry.config_files(settings)], registry)
    return ConfigRead(files, settings, registry, loaded, since_ns)


def registry_of(config: ConfigRead) -> Registry:
    """What it was read with. Plugins see only the contract's side of it."""
    return cast(Registry, config.registry)
