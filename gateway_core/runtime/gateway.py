"""The life cycle of a gateway: start, run, drain, stop. One object per process; nothing global."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
from anyio.abc import TaskGroup

from .. import __version__
from ..config.registry import Registry
from ..contract.clock import Clock, SystemClock
from ..contract.condition import start_failure
from ..contract.config_model import GatewayConfig
from ..contract.config_node import Place
from ..contract.data_folder import DataFolder
from ..contract.errors import ConfigError, StartError, TidegateError
from ..contract.services import RunningService
from ..contract.settings import Settings
from ..contract.status import ConfigStatus, GatewayStatus, ProcessStatus, TriggerStatus, channel_state
from ..contract.tasks import quietly
from ..pipeline.broker import ReadingTrigger, Trigger
from ..pipeline.infos import addresses
from .build import Builder, Built
from .component_tasks import component_tasks
from .component_tasks import started as start_of
from .config_read import ConfigRead, Reloader
from .parts import Parts
from .role import Role
from .status import bridge_status, broker_status, orphan_status, takes_events, with_failure

log = logging.getLogger("tidegate")
Task = Callable[[], Coroutine[Any, Any, None]]


class Gateway:
    """A gateway (one worker of it) built from a config. Raises `StartError` if a component can't be built.

    `builder` builds parts of the config, and `parts` starts and stops them while the gateway runs. Whatever does so
    holds `changing`, and calls `adopt` if the config is another one then. `read` is the config as it was read from
    files, None if it came from none.
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
        self.builder = Builder(config, settings, registry, self.clock, self.worker)
        self.built: Built = self.builder.build()
        self.registry = registry
        self.read = read
        self.peers = self.role.peers
        self._paused: set[str] = set()
        self.changing = anyio.Lock()
        self.parts: Parts  # once it starts
        self._generation = 1
        self.config_error: str | None = None
        self.config_read_ns = read.since_ns if read is not None else 0
        self.failed: dict[Place, str] = {}
        self.measure: Callable[[], dict[str, Any]] = dict  # components' own metrics
        self.process: Callable[[], ProcessStatus] | None = None  # what this process uses, if a service reports it
        self.add_earlier: Callable[[str, Any], Any] = lambda section, entry: entry  # what predecessors counted
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
        self.parts = Parts(self.built, tasks, self.role, self.settings.drain_timeout_s, self._paused)
        if self.role.locks:
            self.folder.claim()
        self._note_names()
        # services come first: a start may take long (a channel that waits for Kafka), and the admin API reports that
        for name, service in self.services.items():
            owner = f"service {name}"
            await start_of(owner, service.start(component_tasks(tasks, owner, lambda _: None)))
        await self.parts.start()
        self.started = self._ready = True
        self.tell(lambda service: service.reached(self.config))

    async def _stop(self) -> None:
        self._ready, self.stopping = False, True
        await self.parts.stop()
        for name, service in reversed(self.services.items()):
            await quietly(service.stop, f"service {name}")
        self.folder.leave()

    def tell(self, what: Callable[[RunningService], None]) -> None:
        """Notifies all services. One that raises must not stop a reload or affect the others."""
        for name, service in self.services.items():
            try:
                what(service)
            except Exception:
                log.exception("service %s failed; it keeps running", name)

    def adopt(self, builder: Builder, config: GatewayConfig, failed: dict[Place, str], *, changed: bool) -> None:
        """Notes that this config runs now, and what `failed` to start. A `changed` part makes a new generation."""
        self.builder, self.config, self.failed = builder, config, failed
        self._generation += changed
        self._note_names()

    def _note_names(self) -> None:
        """Remembers which durable names the config uses."""
        if self.worker == 0:
            self.builder.names.note()

    async def fetch(self) -> bool:
        """Starts the sources that run in one worker only; no other worker runs them. False if some could not be
        started, which the log says."""
        async with self.changing:
            self.role.fetches = True
            for bound_source in self.parts.waiting() if self._ready else ():
                try:
                    await self.parts.start_source(bound_source)
                except Exception as e:
                    expected = isinstance(e, TidegateError)
                    log.error("%s source: %s", bound_source.ref.name, e, exc_info=None if expected else e)
                    await self.parts.stop_source(bound_source)
            return not self._ready or not self.parts.waiting()

    def pause(self, names: Collection[str]) -> None:
        """Pauses these triggers and resumes all others. A paused one starts no attempts; those under way finish."""
        self._paused.clear()
        self._paused.update(names)
        for trigger in self.built.triggers.values():
            if isinstance(trigger, Trigger) and trigger.subscription.paused != (trigger.name in self._paused):
                trigger.subscription.resume() if trigger.subscription.paused else trigger.subscription.pause()
        if self.started:
            self.tell(lambda service: service.changed())

    @property
    def reloader(self) -> Reloader | None:
        """What changes the running gateway to another config; None if no plugin offers the service `reload`."""
        service = self.services.get("reload")
        return service if isinstance(service, Reloader) else None

    @property
    def paused(self) -> frozenset[str]:
        """The names of paused triggers."""
        return frozenset(self._paused)

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
        return {kind: at for service in self.services.values() for kind, at in service.addresses().items()}

    # -- looking in -------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """True while the ingress of every broker and bridge takes events, and every channel can be written."""
        built = self.built
        return (
            self._ready
            and all(b.condition(channel_state(b.channel_name, b.channel)).ready for b in built.brokers.values())
            and all(takes_events(b, self._ready) for b in built.bridges.values())
            and not any(place[0] != "triggers" and place[2:] != ("dead_letter",) for place in self.failed)
        )

    def status(self, *own: Any) -> GatewayStatus:
        """What `tidegate status` shows; numbers are those of all workers, and of this one those of `own_status`."""
        return self.role.whole(self.own_status(*own))

    def trigger_statuses(self, wanted: Iterable[str] | None = None) -> Iterator[TriggerStatus]:
        """One by one, of all or of these triggers. Those that read the channel themselves run in the first worker."""
        built = self.built
        for name in [*{**built.triggers, **built.orphans}] if wanted is None else wanted:
            trigger, orphan = built.triggers.get(name), built.orphans.get(name)
            if trigger is not None and (self.worker == 0 or not isinstance(trigger, ReadingTrigger)):
                yield self.add_earlier("triggers", trigger.status())
            elif trigger is None and orphan is not None:
                yield orphan_status(name, orphan)

    def own_status(self, triggers: list[TriggerStatus] | None = None, measured: Any = None) -> GatewayStatus:
        """The same for this worker only, with these parts, made before in steps, or as they are now."""
        built, add = self.built, self.add_earlier
        return GatewayStatus(
            version=__version__,
            pid=self.role.pid,
            uptime_s=round(time.monotonic() - self.role.began, 3),
            ready=self.ready,
            workers=self.settings.workers,
            data_dir=str(self.settings.data_dir.absolute()),
            config=ConfigStatus(self._generation, self.config_error, self.config_read_ns),
            brokers=[
                with_failure(add("brokers", broker_status(b)), start_failure(self.failed, "brokers", b.name))
                for b in built.brokers.values()
            ],
            triggers=[*self.trigger_statuses()] if triggers is None else triggers,
            bridges=[add("bridges", bridge_status(b, self._ready)) for b in built.bridges.values()],
            observers=[observer.status() for observer in built.observers],
            measured=self.measure() if measured is None else measured,
            processes=[self.process()] if self.process else [],
        )

    @property
    def ingress(self) -> dict[str, list[str]]:
        """Addresses by broker (or bridge)."""
        return {
            **{name: addresses(b.bound_sources) for name, b in self.built.brokers.items()},
            **{name: addresses([b.bound_source]) for name, b in self.built.bridges.items()},
        }
