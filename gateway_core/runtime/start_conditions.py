"""What must hold before a gateway can start, as far as its config and its settings tell.

`tidegate check` and `tidegate run` ask for the same: a config without faults (`load_all`), settings without faults, and
components that can be built. A component looks when it is built, unless that is `offline`, at all that its start needs
and that can be seen without connecting or writing: files that it reads, and the places where it writes. What the
machine and other servers add to that (a port that is taken, a disk that is full, permissions of the user who runs it, a
server that is down) shows at the start only, as a `StartError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ..config.registry import Registry
from ..contract.clock import SystemClock
from ..contract.config_model import GatewayConfig
from ..contract.data_folder import data_folder_faults
from ..contract.errors import ConfigError, Fault, StartError
from ..contract.settings import Settings
from .build import Builder


def of_settings(settings: Settings, registry: Registry) -> list[Fault]:
    """The settings with which no gateway starts."""
    faults = [fault for check in registry.settings_checks for fault in check(settings)]
    return [*faults, *data_folder_faults(settings.data_dir)]


def of_components(config: GatewayConfig, settings: Settings, registry: Registry) -> list[Fault]:
    """Why the components of a config can't be built. It builds them, and starts none. Raises `StartError` for what the
    machine refuses."""
    try:
        with as_faults():
            asyncio.run(_build(config, settings, registry))
    except ConfigError as e:
        return e.faults
    return []


async def _build(config: GatewayConfig, settings: Settings, registry: Registry) -> None:
    Builder(config, settings, registry, SystemClock()).build()


@contextmanager
def as_faults() -> Iterator[None]:
    """Turns a `StartError` of a component that is built into a `ConfigError`: another start would end the same way. One
    that follows from an error of the system (a file that can't be read) stays as it is."""
    try:
        yield
    except StartError as e:
        if isinstance(e.__cause__, OSError):
            raise
        path, colon, message = str(e).partition(": ")
        raise ConfigError([Fault(message, path) if colon and " " not in path else Fault(str(e))]) from e
