"""Reloads the config after a change of its files or a SIGHUP, or reports its faults."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread

from ..config.load import Loaded, load_all
from ..config.model import GatewayConfig
from ..config.registry import Registry
from ..contract.config_node import Node, Place
from ..contract.errors import ConfigError, Fault, StartError
from ..pipeline.guards import text_of_error
from .role import Role
from .settings import Settings

log = logging.getLogger("tidegate.reload")

LOOK_EVERY_S = 0.5

Signature = dict[str, tuple[int, ...]]


class Reloadable(Protocol):
    """The gateway, as the reloader sees it."""

    config_error: str | None
    config_read_ns: int
    role: Role

    def reloading(self) -> None:
        """A reload from the config's files is about to change the gateway. Raises `StartError` if it must not."""

    async def reload(self, config: GatewayConfig) -> tuple[str, dict[Place, str]]:
        """Changes the running gateway to this config. Returns what changed, and what could not be started."""


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


class Reloader:
    """Loads the config and changes the gateway to it, then makes the other workers follow."""

    def __init__(self, gateway: Reloadable, config: ConfigRead) -> None:
        """`config` is what the gateway runs."""
        self._gateway = gateway
        self.paths = config.files
        self._asked = anyio.Event()
        self._settings = config.settings
        self._registry = config.registry
        self._files = list(config.loaded.files)
        self._since_ns = config.since_ns
        self.loaded = config.loaded  # the config in use
        self.lock = anyio.Lock()  # held from reading the files to using them, and by whatever changes them

    def ask(self) -> None:
        """Requests a reload. Several requests before it starts are one."""
        self._asked.set()

    async def answer(self) -> None:
        """Reloads after each `ask`. Runs until cancelled."""
        while True:
            await self._asked.wait()
            self._asked = anyio.Event()
            await self.reload()

    async def reload(self) -> list[Fault]:
        """Reloads once. Returns the faults, none if the gateway now runs the config in the files. A config with faults
        changes nothing."""
        async with self.lock:
            return await self.reload_locked()

    async def reload_locked(self) -> list[Fault]:
        """`reload` for a caller that holds the lock."""
        began_ns = time.time_ns()
        try:
            loaded = await self.load()
            self._files = loaded.files
            self._gateway.reloading()
            changes, failed = await self._gateway.reload(loaded.config)
        except ConfigError as e:
            faults = e.faults
            log.error("the config has faults, and the one before stays in force:\n%s", e)
        except StartError as e:
            faults = [Fault(str(e))]
            log.error("the config can't be used, and the one before stays in force: %s", e)
        except Exception as e:  # whatever it is, the gateway must keep running
            faults = [Fault(f"the reload failed: {text_of_error(e)}")]
            log.exception("the reload failed; the gateway continues with the config before")
        else:
            return self.took(loaded, changes, failed, began_ns)
        self._gateway.config_error = "\n".join(map(str, faults))
        self._gateway.config_read_ns = began_ns
        return faults

    def took(self, loaded: Loaded, changes: str, failed: Mapping[Place, str], began_ns: int) -> list[Fault]:
        """The gateway now runs this config, except for what failed to start; it was read at `began_ns` or later."""
        log.log(logging.INFO if changes else logging.DEBUG, "config reloaded: %s", changes or "nothing changed")
        self.loaded = loaded
        self._files = loaded.files
        self._gateway.config_error = "\n".join(failed.values()) or None
        self._gateway.config_read_ns = began_ns
        self._gateway.role.spread()
        return [Fault(reason) for reason in failed.values()]

    async def load(self, documents: Sequence[Node] = (), without: Collection[Path] = ()) -> Loaded:
        """Reads the files, with more documents and without some files (`load_all`). Raises `ConfigError`."""
        try:
            paths = self._all_paths()
        except StartError as e:
            raise ConfigError([Fault(str(e))]) from e
        return await to_thread.run_sync(load_all, paths, self._registry, None, documents, without)

    def _all_paths(self) -> list[Path]:
        return [*self.paths, *self._registry.config_files(self._settings)]

    async def watch(self) -> None:
        """Polls the files. A change counts once they are the same in two polls, because an editor may write in several
        steps. Polls run in a thread, because a file system that hangs must not hold up events."""
        known = seen = await to_thread.run_sync(self._look)
        if any(
            state[0] >= self._since_ns or state[0] < 0 if state else file in self._files
            for file, state in known.items()
        ):
            known = {}  # something changed while it was read, or since
        while True:
            await anyio.sleep(LOOK_EVERY_S)
            now = await to_thread.run_sync(self._look)
            if now != known and now == seen:
                known = now
                await self.reload()
                known = seen = await to_thread.run_sync(self._look)
            seen = now

    def _look(self) -> Signature:
        """The state of all files that were read, and of those in the named folders. A file that can't be read is
        represented by its error, and a reload then reports it."""
        try:
            named = [str(path) for path in self._all_paths()]
        except StartError as e:
            return {str(e): (-1,)}
        found = {path: _state(path) for path in {*self._files, *named}}
        for folder in filter(os.path.isdir, named):
            try:
                names = os.listdir(folder)
            except OSError as e:
                found[folder] = (-1, e.errno or 0)
            else:
                inside = (os.path.join(folder, name) for name in names if name.endswith((".yaml", ".yml")))
                found.update({file: _state(file) for file in inside})
        return found


def _state(path: str) -> tuple[int, ...]:
    """Time of change, size and number of a file; a folder has neither time nor size. Empty if it is gone, -1 and the
    error if it can't be looked at."""
    try:
        facts = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except (OSError, ValueError) as e:
        return (-1, getattr(e, "errno", 0) or 0)
    if stat.S_ISDIR(facts.st_mode):
        return (0, 0, facts.st_ino)
    return (facts.st_mtime_ns, facts.st_size, facts.st_ino)
