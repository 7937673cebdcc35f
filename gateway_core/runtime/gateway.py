"""The life cycle of a gateway: start, run, drain, stop. One object per process; nothing global."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from ..config.registry import Registry
from ..contract.clock import Clock, SystemClock
from ..contract.component_errors import text_of_error
from ..contract.condition import Condition, orphan_condition, start_failure
from ..contract.config_model import GatewayConfig
from ..contract.config_node import Place
from ..contract.data_folder import DataFolder
from ..contract.errors import ConfigError, StartError, TidegateError
from ..contract.interfaces import Observer
from ..contract.loaded import Loaded
from ..contract.runners import ConfigRead
from ..contract.services import Reloader, RunningService
from ..contract.settings import Settings
from ..contract.status import ConfigStatus, GatewayStatus, TriggerStatus, Unreported, channel_state
from ..contract.tasks import quietly
from ..contract.topology import ObserversOf, Section
from ..contract.version import __version__
from ..pipeline.broker import ReadingTrigger, Trigger
from ..pipeline.infos import addresses
from .build import Builder, Built
from .component_tasks import STOP_S, component_tasks
from .component_tasks import started as start_of
from .earlier import Earlier
from .measures import Steps, finished, own_metrics
from .parts import Parts
from .role import Role
from .status import (
    bridge_condition,
    bridge_status,
    broker_status,
    orphan_status,
    takes_events,
    with_failure,
)

if TYPE_CHECKING:
    from .replacement import Replacement

log = logging.getLogger("tidegate")
T = TypeVar("T")
Task = Callable[[], Coroutine[Any, Any, None]]
REPLACEMENT_S = 5.0
"""How long a stop waits for a change of the config that is under way, but not longer than for deliveries; then it
cancels the change."""


class Gateway:
    """A gateway (one worker of it) built from a config. Raises `StartError` if a component can't be built. Services see
    it as a `GatewayView`. `read` is the config as it was read from files, None if it came from none.
    """

    def __init__(
        self,
        config: GatewayConfig,
        settings: Settings,
        registry: Registry,
        clock: Clock | None = None,
        role: Role | None = None,
        read: ConfigRead | None = None,
    ) -> None:
        self.role = role or Role()
        self.worker, self.workers = self.role.worker, settings.workers
        self.started = self._ready = self.stopping = False
        self.settings = settings
        self.folder = DataFolder(settings.data_dir.absolute())
        self.config = config
        """The running config."""
        self.clock = clock or SystemClock()
        self._builder = Builder(config, settings, registry, self.clock, self.worker)
        self._built = self._builder.build()
        self.registry = registry
        self._read = read
        self.peers = self.role.peers
        self._paused: set[str] = set()
        self._halted: frozenset[str] = frozenset()
        self._changing = anyio.Lock()
        self._replacement: Replacement | None = None
        self._replacing: anyio.CancelScope | None = None
        self._parts: Parts  # once it starts
        self._generation = 1
        self._config_error: str | None = None
        self.config_read_ns = read.since_ns if read is not None else 0
        self.failed: Mapping[Place, str] = {}
        self._earlier = Earlier()
        self._watches: list[ObserversOf] = []
        self.services: dict[str, RunningService] = {
            service.name: service.build(self)
            for service, _ in sorted(registry.services.values(), key=lambda offered: not offered[0].first)
        }

    # -- life -------------------------------------------------------------------------------------------------------

    async def run(self, stop: anyio.Event, started: anyio.Event | None = None, *beside: Task) -> None:
        """Starts everything, sets `started`, runs until `stop` is set, then drains and stops. The tasks `beside` run
        from the beginning to the end.

        Raises `StartError` if something can't start, and `ConfigError` if that is the config's fault; what had started
        is stopped before.
        """
        fault: ConfigError | StartError | None = None
        # where sniffio is installed, anyio asks it for the loop, and it finds no task in a callback from a thread
        known: Any = getattr(sys.modules.get("sniffio"), "thread_local", SimpleNamespace(name=None))
        before, known.name = known.name, "asyncio"
        async with anyio.create_task_group() as tasks:
            for task in beside:
                tasks.start_soon(task)
            try:
                await self._start(tasks)
                if started is not None:
                    started.set()
                await stop.wait()
            except (ConfigError, StartError) as e:
                fault = e
            finally:
                with anyio.CancelScope(shield=True):
                    await self._stop()
                known.name = before
                tasks.cancel_scope.cancel()
        if fault is not None:
            raise fault

    async def _start(self, tasks: TaskGroup) -> None:
        self._parts = Parts(tasks, self.role, self.settings.drain_timeout_s, self._stands)
        if self.role.locks:
            self.folder.claim()
        self._note_names()
        # services come first: a start may take long (a channel that waits for Kafka), and the admin API reports that
        for name, service in self.services.items():
            owner = f"service {name}"
            await start_of(owner, service.start(component_tasks(tasks, owner, lambda _: None)))
        await self._parts.start(self._built)
        self.started = self._ready = True
        self._tell(lambda service: service.reached(self.config))

    async def _stop(self) -> None:
        self._ready, self.stopping = False, True
        await self._end_replacement()
        await self._parts.stop(self._built)
        for name, service in reversed(self.services.items()):
            await quietly(service.stop, f"service {name}")
        self.folder.leave()

    def _tell(self, what: Callable[[RunningService], None]) -> None:
        """Notifies all services. One that raises must not stop a reload or affect the others."""
        for name, service in self.services.items():
            try:
                what(service)
            except Exception:
                log.exception("service %s failed; it keeps running", name)

    # -- changes ----------------------------------------------------------------------------------------------------

    async def replace_config(
        self, config: GatewayConfig, commit: Callable[[], None] | None = None
    ) -> tuple[str, dict[Place, str]]:
        """See `contract.services.Changes`."""
        from .replacement import Replacement  # here: most gateways need it late, or never
        from .rotation import warn_of_kept

        self._check_running()
        async with self._changing:
            self._check_running()  # a stop waits for the lock
            if commit is None:
                self._tell(lambda service: service.wanted(config))
            step = Replacement(
                self._parts, self._builder, self._built, self.config, config, stopping=lambda: self.stopping
            )
            with anyio.CancelScope(shield=True) as self._replacing:
                try:
                    if commit is not None:
                        await to_thread.run_sync(commit)
                        self._tell(lambda service: service.wanted(config))
                    warn_of_kept(self.config, config)
                    if step.changes:
                        await self._replace(step)
                finally:
                    self._replacing = None
            self._adopt(step, config)
            self._tell(lambda service: service.reached(config))
            return str(step.changes), step.failed

    def _check_running(self) -> None:
        if not self._ready:
            raise StartError("the gateway is starting or stopping: its config can't be changed now")

    async def _replace(self, step: Replacement) -> None:
        """What the new config does not have is no longer seen from the beginning, everything else changes at the
        end."""
        self._replacement = step
        self._built = step.kept()
        try:
            await step.run()
        finally:
            self._replacement = None
            for section, entry in step.counted:
                self._earlier.keep(section, entry)
            self._built = step.built()

    def _adopt(self, step: Replacement, config: GatewayConfig) -> None:
        """This config runs now. A changed part makes a new generation."""
        self._builder, self.config, self.failed = step.builder, step.reached(), step.failed
        self._earlier.forget(lambda section, name: name in getattr(config, section))
        self._generation += bool(step.changes)
        self._note_names()
        self._resume_and_pause()
        if self._watches:
            self._observe()

    async def _end_replacement(self) -> None:
        """Waits until no config is being replaced: it ends with the part that it is at. One that takes too long is
        cancelled."""
        limit_s = min(REPLACEMENT_S, self.settings.drain_timeout_s)
        with anyio.move_on_after(limit_s) as waiting:
            async with self._changing:
                return
        if waiting.cancelled_caught and self._replacing is not None:
            log.warning("a change of the config is still under way after %g s, and is ended", limit_s)
            self._replacing.cancel()
            with anyio.move_on_after(STOP_S) as waiting:
                async with self._changing:
                    return
        if waiting.cancelled_caught and self._replacement is not None:
            self._built = self._replacement.built()

    def report_config(self, error: str | None, read_ns: int) -> None:
        """See `contract.services.Changes`."""
        self._config_error, self.config_read_ns = error, read_ns

    def spread(self) -> None:
        """See `contract.services.Changes`."""
        self.role.spread()

    def watch(self, observers_of: ObserversOf) -> None:
        """See `contract.services.Changes`."""
        if observers_of not in self._watches:
            self._watches.append(observers_of)
        self._observe()

    def unwatch(self, observers_of: ObserversOf) -> None:
        """See `contract.services.Changes`."""
        if observers_of in self._watches:
            self._watches.remove(observers_of)
            self._observe()

    def _observe(self) -> None:
        """Gives each part its observers."""
        built, own = self._built, self._built.observers

        def wanted(section: Section, name: str) -> tuple[Observer, ...]:
            return (*own, *(observer for each in self._watches for observer in each(section, name)))

        for name, broker in built.brokers.items():
            broker.observe(wanted("brokers", name))
        for name, trigger in built.triggers.items():
            if isinstance(trigger, Trigger):
                trigger.subscription.observe(wanted("triggers", name))
        for name, bridged in built.bridges.items():
            bridged.bridge.observe(wanted("bridges", name))

    def _note_names(self) -> None:
        """Remembers which durable names the config uses."""
        if self.worker == 0:
            self._builder.names.note()

    async def fetch(self) -> bool:
        """Starts the sources that run in one worker only; no other worker runs them. False if some could not be
        started, which the log says."""
        async with self._changing:
            self.role.fetches = True
            for bound_source in self._parts.waiting(self._built) if self._ready else ():
                try:
                    await self._parts.start_source(bound_source)
                except Exception as e:
                    expected = isinstance(e, TidegateError)
                    log.error("%s source: %s", bound_source.ref.name, e, exc_info=None if expected else e)
                    await self._parts.stop_source(bound_source)
            return not self._ready or not self._parts.waiting(self._built)

    def pause(self, names: Collection[str]) -> None:
        """Pauses these triggers and resumes all others. A paused one starts no attempts; those under way finish."""
        self._paused.clear()
        self._paused.update(names)
        self._resume_and_pause()
        if self.started:
            self._tell(lambda service: service.changed())

    def halt(self, names: Collection[str]) -> None:
        """See `contract.services.Changes`."""
        self._halted = frozenset(names)
        self._resume_and_pause()

    def _stands(self, name: str) -> bool:
        return name in self._paused or name in self._halted

    def _resume_and_pause(self) -> None:
        for trigger in self._built.triggers.values():
            if isinstance(trigger, Trigger) and trigger.subscription.paused != self._stands(trigger.name):
                trigger.subscription.resume() if trigger.subscription.paused else trigger.subscription.pause()

    @property
    def reloader(self) -> Reloader | None:
        """What reads the config's files; None if no plugin offers the service `reload`."""
        service = self.services.get("reload")
        return service if isinstance(service, Reloader) else None

    @property
    def paused(self) -> frozenset[str]:
        """The names of paused triggers."""
        return frozenset(self._paused)

    @property
    def files(self) -> Sequence[Path]:
        """The config files and folders that the gateway was started with; empty if its config came from none."""
        return self._read.files if self._read is not None else ()

    @property
    def read(self) -> Loaded | None:
        """The config as it was read from files at the start, None if it came from none."""
        return self._read.loaded if self._read is not None else None

    @property
    def pid(self) -> int:
        """The process id of the gateway."""
        return self.role.pid

    @property
    def data_dir(self) -> Path:
        """Where the gateway keeps its state; absolute."""
        return self.folder.path

    @property
    def running(self) -> bool:
        """True between start and stop."""
        return self._ready

    @property
    def addresses(self) -> Mapping[str, str]:
        """Where services can be reached, by kind."""
        found: dict[str, str] = {}
        for name, service in self.services.items():
            try:
                found |= service.addresses()
            except Exception:  # the others can be reached
                log.exception("service %s can't tell its addresses", name)
        return found

    # -- looking in -------------------------------------------------------------------------------------------------

    @property
    def topology(self) -> Built:
        """The parts that run; it never changes, but a change of the config replaces it."""
        return self._built

    def _replaces(self, bridge: str) -> bool:
        """Whether another one is taking the place of this bridge, which is ending."""
        return self._replacement is not None and bridge in self._replacement.changes.bridges["changed"]

    @property
    def ready(self) -> bool:
        """True while the ingress of every broker and bridge takes events, and every channel can be written."""
        built = self._built
        return (
            self._ready
            and all(b.condition(channel_state(b.channel_name, b.channel)).ready for b in built.brokers.values())
            and all(takes_events(b, self._ready) or self._replaces(name) for name, b in built.bridges.items())
            and not any(place[0] != "triggers" and place[2:] != ("dead_letter",) for place in self.failed)
        )

    def condition(self, section: str, name: str) -> Condition:
        """See `contract.services.Statuses`."""
        if not self.started:
            return Condition(None, "the gateway is starting", "Starting")
        if failure := start_failure(self.failed, section, name):
            return Condition(False, failure, "StartFailed")
        built = self._built
        if section == "brokers" and (broker := built.brokers.get(name)) is not None:
            return broker.condition(channel_state(broker.channel_name, broker.channel))
        if section == "triggers" and (trigger := built.triggers.get(name)) is not None:
            return trigger.condition()
        if section == "triggers" and (orphan := built.orphans.get(name)) is not None:
            return orphan_condition(orphan)
        if section == "bridges" and not self._replaces(name) and (bridged := built.bridges.get(name)) is not None:
            return bridge_condition(bridged, self._ready)
        return Condition(None, "it is not running yet: see `config.error` in the status", "NotReconciled")

    def others(self) -> Sequence[GatewayStatus]:
        """See `contract.services.Statuses`."""
        return self.role.others()

    def status(self) -> GatewayStatus:
        """What `tidegate status` shows; numbers are those of all workers."""
        return finished(self.status_in_steps())

    def status_in_steps(self, wanted: Collection[str] | None = None) -> Steps[GatewayStatus]:
        """See `contract.services.Statuses`."""
        return self.role.whole((yield from self.own_status_in_steps(wanted)))

    def own_status_in_steps(self, wanted: Collection[str] | None = None) -> Steps[GatewayStatus]:
        """The same for this worker only."""
        triggers = []
        for trigger in self._trigger_statuses(wanted):
            triggers.append(trigger)
            yield
        measures = wanted is None and self.settings.metrics
        measured, unreported = (yield from own_metrics(self._built)) if measures else ({}, [])
        return self._own_status(triggers, measured, unreported)

    def _trigger_statuses(self, wanted: Iterable[str] | None = None) -> Iterator[TriggerStatus]:
        """One by one, of all or of these triggers. Those that read the channel themselves run in the first worker."""
        built = self._built
        for name in [*{**built.triggers, **built.orphans}] if wanted is None else wanted:
            trigger, orphan = built.triggers.get(name), built.orphans.get(name)
            if trigger is not None and (self.worker == 0 or not isinstance(trigger, ReadingTrigger)):
                yield self._earlier.add_to("triggers", trigger.status())
            elif trigger is None and orphan is not None:
                yield orphan_status(name, orphan)

    def _own_status(
        self, triggers: list[TriggerStatus], measured: dict[str, Any], unreported: list[Unreported]
    ) -> GatewayStatus:
        built, add = self._built, self._earlier.add_to
        processes, failed = self._of_services(lambda service: service.process(), "")
        replays, more_failed = self._of_services(lambda service: service.replay_status(), "replays of ")
        return GatewayStatus(
            version=__version__,
            pid=self.role.pid,
            uptime_s=round(time.monotonic() - self.role.began, 3),
            ready=self.ready,
            workers=self.settings.workers,
            data_dir=str(self.settings.data_dir.absolute()),
            config=ConfigStatus(self._generation, self._config_error, self.config_read_ns),
            brokers=[
                with_failure(add("brokers", broker_status(b)), start_failure(self.failed, "brokers", b.name))
                for b in built.brokers.values()
            ],
            triggers=triggers,
            bridges=[add("bridges", bridge_status(b, self._ready)) for b in built.bridges.values()],
            observers=[observer.status() for observer in built.observers],
            measured=measured,
            processes=processes,
            replays=replays,
            unreported=[*unreported, *failed, *more_failed],
        )

    def _of_services(self, ask: Callable[[RunningService], T | None], of: str) -> tuple[list[T], list[Unreported]]:
        """What services tell, and those that raised instead."""
        found: list[T] = []
        failed: list[Unreported] = []
        for name, service in self.services.items():
            try:
                if (told := ask(service)) is not None:
                    found.append(told)
            except Exception as e:
                failed.append(Unreported(f"{of}service {name}", text_of_error(e)))
        return found, failed

    @property
    def ingress(self) -> dict[str, list[str]]:
        """Addresses by broker (or bridge)."""
        return {
            **{name: addresses(b.bound_sources) for name, b in self._built.brokers.items()},
            **{name: addresses([b.bound_source]) for name, b in self._built.bridges.items()},
        }
