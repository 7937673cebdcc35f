"""Follows the config's files: a change, or SIGHUP, brings the running gateway to the new config, or is reported."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import anyio
from anyio import to_thread

from .config.load import Loaded, load_all
from .errors import ConfigError, StartError
from .registry import Registry
from .runtime import Gateway
from .settings import Settings

log = logging.getLogger("tidegate.reload")

LOOK_EVERY_S = 0.5
APPLIED = "applied"
"""Folder in the data directory with what was applied while the gateway ran."""

Signature = tuple[tuple[str, int, int, int], ...]


def applied_dir(settings: Settings) -> Path:
    """Where triggers that were created at run time are kept."""
    return settings.data_dir / APPLIED


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
        files: Sequence[str] = (),
        since_ns: int = 0,
    ) -> None:
        """`files` were read for the config that the gateway runs, at `since_ns` (Unix time) or later."""
        self._gateway = gateway
        self._paths = paths
        self._settings = settings
        self._registry = registry
        self._then = then
        self._files = list(files)
        self._since_ns = since_ns

    async def reload(self) -> list[str]:
        """One reload; returns the faults, none where the gateway now runs what the files say. A config at fault changes
        nothing."""
        loaded: Loaded | None = None
        try:
            loaded = await to_thread.run_sync(self._load)
            changes, failed = await self._gateway.reload(loaded.config)
        except ConfigError as e:
            faults = [str(fault) for fault in e.faults]
            log.error("the config has faults, and the one before stays in force:\n%s", e)
        except StartError as e:
            faults = [str(e)]
            log.error("the config can't be used, and the one before stays in force: %s", e)
        else:
            faults = list(failed)
            log.log(logging.INFO if changes else logging.DEBUG, "config reloaded: %s", changes or "nothing changed")
            self._then()
        if loaded is not None:
            self._files = loaded.files
        self._gateway.config_error = "\n".join(faults) or None
        return faults

    def _load(self) -> Loaded:
        return load_all(all_paths(self._paths, self._settings), self._registry)

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
