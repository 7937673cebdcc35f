"""Follows the config's files: a change, or SIGHUP, brings the running gateway to the new config, or is reported."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import anyio
from anyio import to_thread

from .applied import Applied, all_paths, applied_dir
from .config.load import Loaded, load_all
from .config.yaml import Node
from .errors import ConfigError, Fault, StartError
from .registry import Registry
from .runtime import Gateway
from .settings import Settings

log = logging.getLogger("tidegate.reload")

LOOK_EVERY_S = 0.5

Signature = tuple[tuple[str, int, int, int], ...]


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
        self.paths = paths
        self._asked = anyio.Event()
        self._settings = settings
        self._registry = registry
        self._then = then
        self._files = list(loaded.files) if loaded else []
        self._since_ns = since_ns
        self.loaded = loaded  # what was used last
        self.lock = anyio.Lock()  # from reading the files to using them; who changes them holds it, too

    def ask(self) -> None:
        """Has the config read again soon; however often it is asked meanwhile, once."""
        self._asked.set()

    async def answer(self) -> None:
        """Reloads when `ask` was called, for ever."""
        while True:
            await self._asked.wait()
            self._asked = anyio.Event()
            await self.reload()

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
        except Exception as e:  # of a plugin, a disk, or our own: none is worth a gateway that runs
            faults = [Fault(f"the reload failed: {described(e)}")]
            log.exception("the reload failed, and what runs goes on")
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
        try:
            paths = all_paths(self.paths, self._settings)
        except StartError as e:
            raise ConfigError([Fault(str(e))]) from e
        return await to_thread.run_sync(load_all, paths, self._registry, None, documents, without)

    async def watch(self) -> None:
        """Looks at the files again and again. A change counts once they have been still for one look: an editor may
        write in several steps. Looks are taken in a thread: a file system that hangs must not hold up events."""
        known = seen = await to_thread.run_sync(self._look)
        for path, changed_ns, size, number in known:
            if changed_ns >= self._since_ns or size < 0 or (path in self._files and not number):
                known = ()  # it changed while it was read, or since
                break
        while True:
            await anyio.sleep(LOOK_EVERY_S)
            now = await to_thread.run_sync(self._look)
            if now != known and now == seen:
                known = now
                await self.reload()
                known = seen = await to_thread.run_sync(self._look)
            seen = now

    def _look(self) -> Signature:
        """What every file looks like that was read, and what stands in the folders that were named. What can't be
        looked at looks like its error: a reload then says what is wrong."""
        named = {str(path) for path in (*self.paths, applied_dir(self._settings))}
        found = {}
        for path in named:
            if stat.S_ISDIR(_facts(path)[4]):
                try:
                    names = os.listdir(path)
                except OSError as e:
                    found[path] = (path, 0, -1, e.errno or 0)
                else:
                    inside = [os.path.join(path, name) for name in names if name.endswith((".yaml", ".yml"))]
                    found.update({file: _facts(file)[:4] for file in inside})
        for path in {*self._files, *named} - found.keys():
            found[path] = _facts(path)[:4]
        return tuple(found[path] for path in sorted(found))


def _facts(path: str) -> tuple[str, int, int, int, int]:
    """Path, time of change, size and number of a file, and its mode. A folder has neither time nor size, one that is
    gone has no number, and one that can't be looked at has its error instead."""
    try:
        facts = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return (path, 0, 0, 0, 0)
    except (OSError, ValueError) as e:
        return (path, 0, -1, getattr(e, "errno", 0) or 0, 0)
    folder = stat.S_ISDIR(facts.st_mode)
    return (path, 0 if folder else facts.st_mtime_ns, 0 if folder else facts.st_size, facts.st_ino, facts.st_mode)


def described(error: Exception) -> str:
    """An error nobody expected, in a line."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
