"""Changes to a running gateway: apply, delete, pause and resume triggers, and reload the config.

Every change is first checked as a whole, then written durably, then made. After a crash in between, the next start
reads what was written. A change that can't be started is undone.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import anyio
from anyio import to_thread
from gateway_api.routes import Problem

from gateway_core.contract.condition import start_failure
from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_model import is_name
from gateway_core.contract.config_node import Node, locate, written
from gateway_core.contract.errors import ConfigError, Fault, StartError
from gateway_core.contract.loaded import Loaded
from gateway_core.contract.services import GatewayView, Reloader

from .applied import Applied
from .documents import Triggers, not_permitted, plain
from .generations import Generations
from .permits import Permits, permits_of
from .stored import NOT_ALLOWED, stored_faults
from .write import dump

FOLLOW_WITHIN_S = 5.0
"""How long a change waits for the other workers. They apply it in any case."""
MAX_FILE = 1024 * 1024

Result = Literal["created", "changed", "unchanged"]
Check = Callable[[], None]
"""Raises `Problem` if a precondition of the request does not hold."""


class Control:
    """Changes one gateway. Raises `Problem`."""

    def __init__(self, gateway: GatewayView, reloader: Reloader, applied: Applied, generations: Generations) -> None:
        self._gateway = gateway
        self._reloader = reloader
        self._applied = applied
        self._generations = generations

    def origin(self, name: str) -> dict[str, Any] | None:
        """Where a trigger is defined."""
        loaded = self._reloader.loaded
        place = loaded.place("triggers", name) if loaded is not None else None
        if place is None:
            return None
        file, line = place
        return {"file": file, "line": line, "applied": self._is_applied(name)}

    @property
    def permits(self) -> Permits:
        """What applied triggers may reach."""
        loaded = self._reloader.loaded
        return permits_of(loaded.config if loaded is not None else self._gateway.config, self._gateway.data_dir)

    # -- changes ----------------------------------------------------------------------------------------------------

    async def apply(self, wanted: Triggers, check: Check = lambda: None) -> tuple[dict[str, Result], list[Fault]]:
        """Creates or changes triggers, all or none. Returns the result for each, and warnings."""
        async with self._reloader.lock:
            self._check_running()
            began_ns = time.time_ns()
            results, loaded = await self._planned(wanted, check)
            if any(result != "unchanged" for result in results.values()):
                contents = {name: _text(name, documents) for name, documents in wanted.items()}
                fresh = {name for name, result in results.items() if result == "created"}
                with anyio.CancelScope(shield=True):
                    await self._bring(loaded, contents, self._gateway.paused - fresh, began_ns)
            return results, [w for w in loaded.warnings if not w.file]

    async def plan(self, wanted: Triggers) -> tuple[dict[str, Result], Loaded]:
        """What `apply` would do, and the config afterwards. Changes nothing."""
        async with self._reloader.lock:
            return await self._planned(wanted, lambda: None)

    async def _planned(self, wanted: Triggers, check: Check) -> tuple[dict[str, Result], Loaded]:
        for name in wanted:
            self._check_ours(name)
        check()
        self._check_names(wanted)
        loaded = await self._loaded(wanted)
        self._check_permits(wanted, loaded)
        self._check_others(wanted, loaded)
        self._check_brokers(wanted, loaded)
        return {name: self._result(name, loaded) for name in wanted}, loaded

    async def delete(self, name: str, check: Check = lambda: None) -> None:
        """Removes a trigger that was applied. Its position in the channel is kept for a new trigger of the same
        name."""
        async with self._reloader.lock:
            self._check_running()
            self._check_there(name)
            self._check_ours(name)
            check()
            began_ns = time.time_ns()
            try:
                loaded = await self._reloader.load(without=[self._applied.file(name)])
            except ConfigError as e:
                raise _files_at_fault(e) from e
            with anyio.CancelScope(shield=True):
                await self._bring(loaded, {name: None}, self._gateway.paused - {name}, began_ns)

    async def pause(self, name: str, paused: bool, check: Check = lambda: None) -> None:
        """Pauses or resumes a trigger, durably."""
        async with self._reloader.lock:
            self._check_running()
            self._check_there(name)
            trigger = self._gateway.topology.triggers.get(name)
            if trigger is not None and trigger.reads:
                text = f"the subscriber of `{name}` reads the channel itself: it can't be paused, only deleted"
                raise Problem(409, text)
            check()
            began_ns = time.time_ns()
            names = self._gateway.paused | {name} if paused else self._gateway.paused - {name}
            with anyio.CancelScope(shield=True):
                if names != self._gateway.paused:
                    await self._written(lambda: self._applied.write_paused(names))
                    self._gateway.pause(names)
                    self._gateway.spread()
                    await self._others_follow(began_ns)

    async def reload(self) -> None:
        """Reads the config's files again."""
        async with self._reloader.lock:
            self._check_running()
            began_ns = time.time_ns()
            with anyio.CancelScope(shield=True):
                faults = await self._reloader.reload_locked()
                await self._others_follow(began_ns)
        if faults:
            some = bool(self._gateway.failed)
            text = (
                "some parts could not be started"
                if some
                else "the config has errors, and the previous one stays in force"
            )
            raise Problem(422, text, faults)

    # -- checks -----------------------------------------------------------------------------------------------------

    def _check_running(self) -> None:
        if not self._gateway.running:
            raise Problem(503, "the gateway is starting or stopping", headers={"retry-after": "1"})

    def _check_there(self, name: str) -> None:
        if self._generations.get("triggers", name) is None:
            raise Problem(404, f"there is no trigger `{name}`")

    def _check_ours(self, name: str) -> None:
        """Triggers from the config's own files must be changed there."""
        origin = self.origin(name)
        if origin is not None and not origin["applied"]:
            text = f"`{name}` is defined in {origin['file']}:{origin['line']}: change it there"
            fault = Fault(text, f"triggers.{name}", origin["file"], origin["line"])
            raise Problem(409, text, [fault])

    def _is_applied(self, name: str) -> bool:
        loaded = self._reloader.loaded
        assert loaded is not None
        return loaded.places["triggers"][name][0] == str(self._applied.file(name))

    def _check_brokers(self, names: Collection[str], loaded: Loaded) -> None:
        """Knative Broker specification, Trigger: the broker is immutable."""
        for name in names:
            version = self._generations.get("triggers", name)
            wanted = loaded.config.triggers[name].broker
            if version is not None and version.config.broker != wanted:
                text = f"the broker of a trigger can't be changed: `{name}` belongs to `{version.config.broker}`"
                raise Problem(409, f"{text}, not `{wanted}`; delete it first, or use another name")

    def _check_names(self, wanted: Triggers) -> None:
        """Refuses components before the config is loaded, which checks their options."""
        permits, registry = self.permits, self._gateway.registry
        _refuse(
            (own[0], found)
            for name, own in wanted.items()
            if "triggers" in own[0].value
            for found in permits.names(plain(own[0].value["triggers"].value[name]), ("triggers", name), registry)
        )

    def _check_permits(self, wanted: Triggers, loaded: Loaded) -> None:
        permits = permits_of(loaded.config, self._gateway.data_dir)
        _refuse(
            (own[0], found)
            for name, own in wanted.items()
            for found in permits.faults(loaded.config.triggers[name], ("triggers", name))
        )

    def _check_others(self, wanted: Triggers, loaded: Loaded) -> None:
        """A change also brings in the config's files. If these allow less than before, other applied triggers may be
        at fault, as in a reload."""
        permits = permits_of(loaded.config, self._gateway.data_dir)
        if faults := stored_faults(loaded, self._applied, permits, without=wanted):
            raise Problem(409, f"{NOT_ALLOWED}: delete it first, or allow it; nothing was changed", faults)

    async def _loaded(self, wanted: Triggers) -> Loaded:
        documents = [document for own in wanted.values() for document in own]
        try:
            without = [self._applied.file(name) for name in wanted if is_name(name)]  # another name is a fault
            return await self._reloader.load(documents, without)
        except ConfigError as e:
            faults = e.faults
        if not any(not fault.file for fault in faults):
            try:
                await self._reloader.load()
            except ConfigError as e:
                raise _files_at_fault(e) from e
        raise Problem(422, "the body has errors; nothing was changed", faults)

    def _result(self, name: str, loaded: Loaded) -> Result:
        version = self._generations.get("triggers", name)
        if version is None:
            return "created"
        same = version.config == loaded.config.triggers[name] and version.observed == version.generation
        return "unchanged" if same else "changed"

    # -- doing it ---------------------------------------------------------------------------------------------------

    async def _bring(
        self, loaded: Loaded, contents: Mapping[str, bytes | None], paused: Collection[str], began_ns: int
    ) -> None:
        """Writes a checked change and starts it; undoes it if it can't be started."""
        before, paused_before = await to_thread.run_sync(self._applied.read, contents), self._gateway.paused

        def commit() -> None:
            self._applied.write(contents)
            if paused != paused_before:
                self._applied.write_paused(paused)

        try:
            if any(content is not None for content in contents.values()):
                self._gateway.pause(paused)  # before the trigger begins
            changes, failed = await self._gateway.replace_config(loaded.config, commit)
        except (ConfigError, StartError) as e:
            self._gateway.pause(paused_before)
            faults = e.faults if isinstance(e, ConfigError) else [Fault(str(e))]
            raise Problem(422, "the gateway can't use this; nothing was changed", faults) from e
        except OSError as e:
            self._gateway.pause(paused_before)
            with suppress(OSError):
                await to_thread.run_sync(self._applied.write, before)
            raise _not_written(e) from e
        except Exception:
            self._gateway.pause(paused_before)
            with suppress(OSError):
                await to_thread.run_sync(self._applied.write, before)
            raise
        mine = [text for name in contents if (text := start_failure(failed, "triggers", name))]
        if mine:
            await self._written(lambda: self._applied.write(before))
            await self._reloader.reload_locked()
            raise Problem(422, "it could not be started; the change was undone", [Fault(reason) for reason in mine])
        self._gateway.pause(paused)
        self._reloader.took(self._placed(loaded, contents), changes, failed, began_ns)
        await self._others_follow(began_ns)

    def _placed(self, loaded: Loaded, contents: Mapping[str, bytes | None]) -> Loaded:
        """The config as if it had been read from the files."""
        written = {name: str(self._applied.file(name)) for name, content in contents.items() if content is not None}
        triggers = {**loaded.places["triggers"], **{name: (file, 3) for name, file in written.items()}}
        places = {**loaded.places, "triggers": triggers}
        return dataclasses.replace(loaded, files=[*loaded.files, *written.values()], places=places)

    async def _written(self, write: Callable[[], None]) -> None:
        try:
            await to_thread.run_sync(write)
        except OSError as e:
            raise _not_written(e) from e

    async def _others_follow(self, since_ns: int) -> None:
        with anyio.move_on_after(FOLLOW_WITHIN_S):
            others = self._gateway.others
            while any(status.config.read_ns < since_ns for status in others()):  # noqa: ASYNC110
                await anyio.sleep(0.05)


def _refuse(found: Iterable[tuple[Node, ConfigFinding]]) -> None:
    """Raises `Problem` for what is found in documents of a request."""
    faults = [
        Fault(fault.message, written(document, fault.place), "", locate(document, fault.place)[1], fault.remedy)
        for document, fault in found
    ]
    if faults:
        raise not_permitted(faults)


def _text(name: str, documents: Sequence[Any]) -> bytes:
    """The content of a trigger's file."""
    if name.endswith(".scenario"):
        raise Problem(422, f"`{name}` can't be stored: a file *.scenario.yaml is not a config; use another name")
    text = dump(*documents).encode()
    if len(text) > MAX_FILE:
        raise Problem(422, f"`{name}` is larger than {MAX_FILE // 1024} KiB when its aliases are written out")
    return text


def _files_at_fault(error: ConfigError) -> Problem:
    text = "the config's own files have errors: fix them first (`tidegate check`)"
    return Problem(409, text, error.faults)


def _not_written(error: OSError) -> Problem:
    return Problem(507, f"{os.fsdecode(error.filename or '')}: {error.strerror}: nothing was changed")
