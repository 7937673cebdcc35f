"""The life of a gateway: start in order, run, drain, stop. One object a process; nothing global."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from . import __version__
from .admin import Admin
from .api.conditions import Conditions
from .api.looking import looking_routes
from .api.table import control_routes
from .applied import Applied, applied_dir
from .broker import Trigger
from .build import Builder, Built
from .clock import Clock, SystemClock
from .component_tasks import quietly
from .config.model import GatewayConfig
from .errors import StartError, TidegateError
from .files import keep_private, no_room
from .folder import DataFolder, socket_path
from .generations import Generations
from .infos import addresses, channel_info
from .intake import Inlet
from .parts import Parts
from .process import process_status
from .registry import Registry
from .reload import Reload
from .settings import Settings
from .status import bridge_status, broker_status, merge, orphan_status, start_failure, takes_events, with_failure
from .talk import Alone, Colleagues
from .tap.taps import Taps
from .whereabouts import whereabouts

if TYPE_CHECKING:
    from .control import Control

log = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class Supervised:
    """What a worker knows of its supervisor, which holds the data directory: its process, and since when it runs
    (`time.monotonic`)."""

    pid: int
    began: float


class Gateway:
    """A gateway (one worker of it) built from a config. Raises `StartError` where a component can't be built.

    `others` gives the status of the other workers, for the one that answers for all; `ended` the counts
    of those that are no more.
    """

    def __init__(
        self,
        config: GatewayConfig,
        settings: Settings,
        registry: Registry,
        clock: Clock | None = None,
        worker: int = 0,
        others: Callable[[], list[dict[str, Any]]] = list,
        ended: Callable[[], list[dict[str, Any]]] = list,
        supervised: Supervised | None = None,
    ) -> None:
        self._settings = settings
        self._worker = worker
        self.others = others
        self._ended = ended
        self._supervised = supervised
        self._pid = supervised.pid if supervised else os.getpid()
        self._started_at = supervised.began if supervised else time.monotonic()
        self.started = self._ready = self.stopping = False
        self._folder = DataFolder(settings.data_dir.absolute())
        self._config = config
        clock = clock or SystemClock()
        self._builder = Builder(config, settings, registry, clock, worker)
        self.built: Built = self._builder.build()
        self.taps = Taps(self.built, clock)
        self.registry = registry
        self.colleagues: Colleagues = Alone()
        self._paused = Applied(applied_dir(settings)).paused()
        self._reloading = anyio.Lock()
        self._generation = 1
        self.config_error: str | None = None
        self.config_read_ns = 0
        self.failed: dict[str, str] = {}
        self.generations = Generations(config)
        self.conditions = Conditions(self, clock)
        self.control: Control | None = None
        self._admin = self._make_admin() if worker == 0 and settings.admin != "off" else None
        self.admin_url: str | None = None
        self.admin_socket: str | None = None

    def _make_admin(self) -> Admin:
        token = self._settings.admin_token
        return Admin(
            self.status,
            lambda: self.ready,
            started=lambda: self.started,
            with_metrics=self._settings.metrics,
            more=[*control_routes(self), *looking_routes(self)],
            token=token.get_secret_value() if token else "",
            names=[name for name in self._settings.admin_hosts.split(",") if name.strip()],
        )

    # -- life -------------------------------------------------------------------------------------------------------

    async def run(self, stop: anyio.Event, started: anyio.Event | None = None) -> None:
        """Starts everything, sets `started`, and runs until `stop` is set; then drains and stops.

        Raises `StartError` where something can't start; what had started is stopped before.
        """
        fault: StartError | None = None
        async with anyio.create_task_group() as tasks:
            try:
                await self._start(tasks)
                if started is not None:
                    started.set()
                await stop.wait()
            except StartError as e:
                fault = e
            finally:
                with anyio.CancelScope(shield=True):
                    await self._stop()
                tasks.cancel_scope.cancel()
        if fault is not None:
            raise fault

    async def _start(self, tasks: TaskGroup) -> None:
        drain_s, workers = self._settings.drain_timeout_s, self._settings.workers
        self._parts = Parts(self.built, tasks, self._worker, drain_s, self._paused, workers)
        if self._worker == 0:
            if self._supervised is None:
                self._folder.claim()
            keep_private(applied_dir(self._settings))
        # the admin API answers first: a start may take long (a channel that waits for Kafka)
        if self._admin is not None:
            await self._open_admin(self._admin, tasks)
            tasks.start_soon(self.conditions.watch)
        await self._parts.start()
        self.started = self._ready = True
        self.generations.reach(self._config, self._config)
        self.conditions.observe()
        if self._worker == 0:
            self._announce()

    async def _open_admin(self, admin: Admin, tasks: TaskGroup) -> None:
        """The socket in the data directory first: it can't collide with another gateway's. That the default address is
        taken then stops nothing; one that somebody named is meant."""
        address, named = self._settings.admin, "admin" in self._settings.model_fields_set
        try:
            await admin.start_local(self._folder.listen(), tasks)
            self.admin_socket = str(socket_path(self._folder.path))
        except OSError as e:
            if address == "socket" and not no_room(e):
                raise StartError(f"admin: can't listen in {self._folder.path}: {e.strerror or e}") from e
            log.warning("no socket of the admin API in %s: %s", self._folder.path, e.strerror or e)
        if address == "socket":
            return
        try:
            self.admin_url = await admin.start(address, tasks)
        except StartError as e:
            taken = isinstance(e.__cause__, OSError) and e.__cause__.errno == errno.EADDRINUSE
            if named or not taken or self.admin_socket is None:
                raise
            log.warning("%s. The admin API answers at %s alone", e, self.admin_socket)

    async def _stop(self) -> None:
        self._ready, self.stopping = False, True
        await self._parts.stop()
        self.taps.close_all()
        if self._admin is not None:
            await quietly(self._admin.stop)
        self._folder.leave(keep=self._supervised is not None)

    async def reload(
        self, config: GatewayConfig, commit: Callable[[], None] | None = None
    ) -> tuple[str, dict[str, str]]:
        """Brings the running gateway to another config: only what changed is started anew. Returns what was done, and
        what could not be started, by its place (everything else runs; the next reload tries it again). Raises
        `ConfigError` or `StartError` where nothing was done.

        `commit` is called, in a thread, once the config has been found possible and before anything is touched: it
        makes the config the one that a restart would find. What it raises comes through.
        """
        async with self._reloading:
            if commit is None:
                self.generations.want(config)
            step = Reload(self._parts, self._builder, self._config, config)
            with anyio.CancelScope(shield=True):
                if commit is not None:
                    await to_thread.run_sync(commit)
                    self.generations.want(config)
                if step.changes:
                    await step.run()
                    self._generation += 1
            self.taps.attach()
            self._builder, self._config, self.failed = step.builder, step.reached(), step.failed
            self.generations.reach(config, self._config)
            self.conditions.observe()
            if self._worker == 0:
                try:
                    self._announce()
                except StartError as e:  # commands may not find the new addresses; events do
                    log.error("%s", e)
            return str(step.changes), step.failed

    async def fetch(self) -> None:
        """Runs from now on the sources of which there may be only one: no other worker does. One that can't be started
        is tried again."""
        for wait_s in chain((0.5, 1.0, 2.0, 5.0), repeat(10.0)):
            async with self._reloading:
                if not self._ready:
                    return
                self._parts.fetches = True
                for inlet in self._parts.waiting():
                    await self._fetch_from(inlet)
                if not self._parts.waiting():
                    return
            await anyio.sleep(wait_s)

    async def _fetch_from(self, inlet: Inlet) -> None:
        try:
            await self._parts.start_source(inlet)
        except Exception as e:
            expected = isinstance(e, TidegateError)
            log.error("%s source: %s", inlet.ref.name, e, exc_info=None if expected else e)
            await self._parts.stop_source(inlet)

    def pause(self, names: Collection[str]) -> None:
        """Pauses these triggers, and no others: no attempt begins, what is under way finishes."""
        self._paused.clear()
        self._paused.update(names)
        for trigger in self.built.triggers.values():
            if isinstance(trigger, Trigger) and trigger.subscription.suspended != (trigger.name in self._paused):
                trigger.subscription.proceed() if trigger.subscription.suspended else trigger.subscription.suspend()
        self.conditions.observe()

    @property
    def paused(self) -> frozenset[str]:
        """The names of paused triggers."""
        return frozenset(self._paused)

    @property
    def config(self) -> GatewayConfig:
        """The config that runs."""
        return self._config

    @property
    def running(self) -> bool:
        """True between start and stop."""
        return self._ready

    def answer(self, question: Any) -> Any:
        """What this worker answers to the first one's question: where an event is (`whereabouts`)."""
        asked = (question[name] for name in ("owner", "id", "source", "position"))
        return whereabouts(self.built, *asked)

    # -- looking in -------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """True while the ingress of every broker and bridge takes events, and every channel can be written."""
        built = self.built
        return (
            self._ready
            and all(b.condition(channel_info(b.channel)).ready for b in built.brokers.values())
            and all(takes_events(b, self._ready) for b in built.bridges.values())
            and not any(
                place.startswith(("brokers.", "bridges.")) and ".dead_letter" not in place for place in self.failed
            )
        )

    def status(self) -> dict[str, Any]:
        """What `tidegate status` shows; numbers are those of all workers."""
        return merge(self.own_status(), [*self.others(), *self._ended()])

    def own_status(self) -> dict[str, Any]:
        """The same for this worker alone."""
        built, earlier = self.built, self.built.earlier
        return {
            "version": __version__,
            "pid": self._pid,
            "uptime_s": round(time.monotonic() - self._started_at, 3),
            "ready": self.ready,
            "workers": self._settings.workers,
            "data_dir": str(self._settings.data_dir.absolute()),
            "config": {
                "generation": self._generation,
                "error": self.config_error,
                "read_ns": self.config_read_ns,
            },
            "brokers": [
                with_failure(earlier.add_to("brokers", broker_status(b)), start_failure(self.failed, "brokers", b.name))
                for b in built.brokers.values()
            ],
            "triggers": [
                *(earlier.add_to("triggers", t.status()) for t in built.triggers.values()),
                *(orphan_status(name, t) for name, t in built.orphans.items() if name not in built.triggers),
            ],
            "bridges": [earlier.add_to("bridges", bridge_status(b, self._ready)) for b in built.bridges.values()],
            "observers": [observer.status() for observer in built.observers],
            "processes": [process_status(self._worker)] if self._settings.metrics else [],
        }

    @property
    def ingress(self) -> dict[str, list[str]]:
        """Addresses by broker (or bridge)."""
        return {
            **{name: addresses(b.inlets) for name, b in self.built.brokers.items()},
            **{name: addresses([b.inlet]) for name, b in self.built.bridges.items()},
        }

    @property
    def admin_at(self) -> str | None:
        """Where the admin API answers, the address before the socket; None where it is off."""
        return self.admin_url or self.admin_socket

    def _announce(self) -> None:
        """So that other commands find a running gateway by its data directory."""
        self._folder.announce(
            {"pid": self._pid, "admin": self.admin_url, "socket": self.admin_socket, "ingress": self.ingress}
        )
