"""The service: changes the gateway to its config after a change of the files or a SIGHUP, or reports the faults."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from gateway_audit_log.log import audit_log

from gateway_core.contract.component_errors import text_of_error
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.config_node import Node, Place
from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError, Fault, StartError
from gateway_core.contract.loaded import Loaded
from gateway_core.contract.services import GatewayView, RunningService
from gateway_core.contract.shortage import is_shortage

log = logging.getLogger("tidegate.reload")

LOOK_EVERY_S = 1.0
LOOK_AGAIN_S = 0.5
"""After a change."""

Signature = dict[str, tuple[int, ...]]


class ReloadService(RunningService):
    """Loads the config and brings the gateway to it, then makes the other workers follow (`Reloader`). The first
    worker reloads at SIGHUP and when the files change, the others when it has."""

    def __init__(self, gateway: GatewayView) -> None:
        self._gateway = gateway
        self.loaded = gateway.read
        self._paths = gateway.files
        self._files = list(self.loaded.files) if self.loaded is not None else []
        self._secret_files = list(self.loaded.secret_files) if self.loaded is not None else []
        self._since_ns = gateway.config_read_ns
        self._error: str | None = None
        self._begun = anyio.Event()
        self._asked = anyio.Event()
        self.enabled = gateway.worker == 0 and bool(self._paths) and gateway.settings.reload != "off"
        self.lock = anyio.Lock()

    async def start(self, tasks: TaskGroup) -> None:
        if self.enabled:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.ask)
        if self.loaded is not None:
            tasks.start_soon(self._answer)
        if self.enabled and self._gateway.settings.reload == "watch":
            tasks.start_soon(self._watch)

    def reached(self, wanted: GatewayConfig) -> None:
        self._begun.set()

    def ask(self) -> None:
        """Requests a reload. Several requests before it starts are one."""
        self._asked.set()

    async def _answer(self) -> None:
        """Reloads after each `ask`, once the gateway has started. Runs until cancelled."""
        await self._begun.wait()
        while True:
            await self._asked.wait()
            self._asked = anyio.Event()
            await self.reload()

    async def reload(self) -> list[Fault]:
        """Reloads once. Returns the faults, none if the gateway now runs the config in the files. A config with faults
        changes nothing."""
        async with self.lock:
            faults = await self.reload_locked()
        if self._gateway.worker == 0:
            self._record(faults)
        return faults

    def _record(self, faults: Sequence[Fault]) -> None:
        audit = audit_log(self._gateway.data_dir)
        facts = {"files": self._files, **({"faults": [str(fault) for fault in faults]} if faults else {})}
        audit.record("local user", "config.reload", "files", "failed" if faults else "done", **facts)

    async def reload_locked(self) -> list[Fault]:
        """`reload` for a caller that holds the lock."""
        began_ns = time.time_ns()
        try:
            loaded = await self.load()
            _refuse_nothing(self._gateway.config, loaded)
            self._files = loaded.files
            for service in self._gateway.services.values():
                service.reloading(loaded)
            changes, failed = await self._gateway.replace_config(loaded.config)
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
        self._say("\n".join(map(str, faults)), began_ns)
        return faults

    def took(self, loaded: Loaded, changes: str, failed: Mapping[Place, str], began_ns: int) -> list[Fault]:
        """The gateway now runs this config, except for what failed to start; it was read at `began_ns` or later."""
        news = changes or self._error
        log.log(logging.INFO if news else logging.DEBUG, "config reloaded: %s", changes or "nothing changed")
        self.loaded = loaded
        self._files = loaded.files
        self._say("\n".join(failed.values()) or None, began_ns)
        self._gateway.spread()
        return [Fault(reason) for reason in failed.values()]

    def _say(self, error: str | None, began_ns: int) -> None:
        """Says in the status what became of the latest config."""
        self._error = error
        self._gateway.report_config(error, began_ns)

    async def load(self, documents: Sequence[Node] = (), without: Collection[Path] = ()) -> Loaded:
        """Reads the files, with more documents and without some files (`load_all`). Raises `ConfigError`."""
        try:
            paths = self._all_paths()
        except StartError as e:
            raise ConfigError([Fault(str(e))]) from e
        return await to_thread.run_sync(self._loaded, paths, documents, without)

    def _loaded(self, paths: Sequence[Path], documents: Sequence[Node], without: Collection[Path]) -> Loaded:
        try:
            loaded = load_all(paths, self._gateway.registry, None, documents, without)
        except ConfigError as e:
            if e.secret_files is not None:  # a secret's file that is missing may come later
                self._secret_files = list(e.secret_files)
            raise
        self._secret_files = list(loaded.secret_files)
        return loaded

    def _all_paths(self) -> list[Path]:
        return [*self._paths, *self._gateway.registry.config_files(self._gateway.settings)]

    async def _watch(self) -> None:
        """Polls the files, once the gateway has started. A change counts when they are the same in two polls, because
        an editor may write in several steps. Polls run in a thread, because a file system that hangs must not hold up
        events."""
        await self._begun.wait()
        known = seen = await self._looked()
        if any(
            state[0] >= self._since_ns or state[0] < 0 if state else file in (*self._files, *self._secret_files)
            for file, state in known.items()
        ):
            known = {}  # something changed while it was read, or since
        while True:
            await anyio.sleep(LOOK_EVERY_S if seen == known else LOOK_AGAIN_S)
            now = await self._looked()
            if now != known and now == seen:
                began_ns = time.time_ns()
                await self.reload()
                after = await self._looked()
                # a file may have changed since it was read: what is new to us was read, unless it is newer than that
                known = {file: now.get(file, state if _older(state, began_ns) else ()) for file, state in after.items()}
                now = after
            seen = now

    async def _looked(self) -> Signature:
        """`_look`, as soon as a thread can be had."""
        while True:
            try:
                return await to_thread.run_sync(self._look)
            except Exception as e:
                if not is_shortage(e):
                    raise
            await anyio.sleep(LOOK_EVERY_S)

    def _look(self) -> Signature:
        """The state of all files that were read, those of secrets too, and of those in the named folders. A file that
        can't be read is represented by its error, and a reload then reports it. Symbolic links are followed, so that a
        volume that Kubernetes replaces is noticed."""
        try:
            named = [str(path) for path in self._all_paths()]
        except StartError as e:
            return {str(e): (-1,)}
        found = {path: _state(path) for path in {*self._files, *self._secret_files, *named}}
        for folder in filter(os.path.isdir, named):
            try:
                names = os.listdir(folder)
            except OSError as e:
                found[folder] = (-1, e.errno or 0)
            else:
                inside = (os.path.join(folder, name) for name in names if name.endswith((".yaml", ".yml")))
                found.update({file: _state(file) for file in inside})
        return found


def _older(state: tuple[int, ...], than_ns: int) -> bool:
    return not state or state[0] < than_ns


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


def _refuse_nothing(before: GatewayConfig, loaded: Loaded) -> None:
    """Raises `ConfigError` if nothing would be left of a config: an editor may empty a file before it writes it."""
    after = loaded.config
    if (before.brokers or before.bridges) and not (after.brokers or after.bridges):
        raise ConfigError(
            [
                Fault(
                    "the config no longer has a broker or a bridge",
                    file=str(loaded.files[0]) if loaded.files else "",
                    remedy="stop the gateway if you mean that; a file that is written in two steps is read again",
                )
            ]
        )
