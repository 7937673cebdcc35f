"""Follows the config's files: a change, or SIGHUP, brings the running gateway to the new config, or is reported."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import anyio
from anyio import to_thread

from .applied import Applied, applied_dir
from .config.load import Loaded, load_all
from .config.yaml import Node
from .errors import ConfigError, Fault, StartError
from .registry import Registry
from .runtime import Gateway
from .settings import Settings

log = logging.getLogger("tidegate.reload")

LOOK_EVERY_S = 0.5

Signature = tuple[tuple[str, int, int, int], ...]


def all_paths(paths: Sequence[Path], settings: Settings) -> list[Path]:
    """The config's files and folders, with what was applied at run time."""
    applied = applied_dir(settings)
    return [*paths, *([applied] if any(applied.glob("*.yaml")) else [])]


class Reloader:
    """Loads anew and tells the gateway. `then` is called after a config was taken (other workers follow)."""

    def __init__(
        self,
        gateway: Gateway,
        paths: Sequence[Path],
        settings: Settings,
        registry: Registry,
        then: Callable[[], None] = lambda: None,
        *,
        loaded: Loaded | None = None,
        since_ns: int = 0,
    ) -> None:
        """`loaded` is the config that the gateway runs, read at `since_ns` (Unix time) or later."""
        self._gateway = gateway
        self._paths = paths
        self._settings = settings
        self._registry = registry
        self._then = then
        self._files = list(loaded.files) if loaded else []
        self._since_ns = since_ns
        self.loaded = loaded  # what was used last
        self.lock = anyio.Lock()  # from reading the files to using them; who changes them holds it, too

    async def reload(self) -> list[Fault]:
        """One reload; returns the faults, none where the gateway now runs what the files say. A config at fault changes
        nothing."""
        async with self.lock:
            return await self.reload_locked()

    async def reload_locked(self) -> list[Fault]:
        """`reload`, for who holds the lock."""
        began_ns = time.time_ns()
        try:
            loaded = await self.load()
            self._files = loaded.files
            self._gateway.pause(Applied(applied_dir(self._settings)).paused())
            changes, failed = await self._gateway.reload(loaded.config)
        except ConfigError as e:
            faults = e.faults
            log.error("the config has faults, and the one before stays in force:\n%s", e)
        except StartError as e:
            faults = [Fault(str(e))]
            log.error("the config can't be used, and the one before stays in force: %s", e)
        else:
            return self.took(loaded, changes, failed, began_ns)
        self._gateway.config_error = "\n".join(map(str, faults))
        self._gateway.config_read_ns = began_ns
        return faults

    def took(self, loaded: Loaded, changes: str, failed: Mapping[str, str], began_ns: int) -> list[Fault]:
        """The gateway now runs this config, but for what failed to start; it was read at `began_ns` or later."""
        log.log(logging.INFO if changes else logging.DEBUG, "config reloaded: %s", changes or "nothing changed")
        self.loaded = loaded
        self._files = loaded.files
        self._gateway.config_error = "\n".join(failed.values()) or None
        self._gateway.config_read_ns = began_ns
        self._then()
        return [Fault(reason) for reason in failed.values()]

    async def load(self, documents: Sequence[Node] = (), without: Collection[Path] = ()) -> Loaded:
        """Reads the files, with documents on top and some files left out (`load_all`). Raises `ConfigError`."""
        paths = all_paths(self._paths, self._settings)
        return await to_thread.run_sync(load_all, paths, self._registry, None, documents, without)

    async def watch(self) -> None:
        """Looks at the files again and again. A change counts once they have been still for one look: an editor may
        write in several steps."""
        known = seen = _signature(self._places())
        if any(changed_ns >= self._since_ns for _, changed_ns, _, _ in known):  # while it was read, or since
            known = ()
        while True:
            await anyio.sleep(LOOK_EVERY_S)
            now = _signature(self._places())
            if now != known and now == seen:
                known = now
                await self.reload()
                known = seen = _signature(self._places())
            seen = now

    def _places(self) -> list[Path]:
        """Every file that was read, and what stands in the folders that were named."""
        named = [*self._paths, applied_dir(self._settings)]
        inside = [f for p in named if p.is_dir() for f in p.iterdir() if f.suffix in (".yaml", ".yml")]
        return sorted({*map(Path, self._files), *named, *inside})


def _signature(files: Iterable[Path]) -> Signature:
    found = []
    for file in files:
        try:
            facts = os.stat(file)
        except OSError:
            continue
        size = 0 if file.is_dir() else facts.st_size
        found.append((str(file), 0 if file.is_dir() else facts.st_mtime_ns, size, facts.st_ino))
    return tuple(found)
