"""Services run beside the components of a gateway: the admin API is one, inspection another.

A service sees the gateway (`GatewayView`) and its other services, and answers questions of the other workers. Every
worker builds all services.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import anyio
from anyio.abc import TaskGroup

from .clock import Clock
from .status import GatewayStatus, ProcessStatus, ReplaysStatus

if TYPE_CHECKING:
    from .condition import Condition
    from .config_model import GatewayConfig
    from .config_node import Node, Place
    from .configs import Registry
    from .errors import Fault
    from .loaded import Loaded
    from .settings import Settings
    from .topology import ObserversOf, Topology

Push = Callable[[Sequence[bytes], int], None]
"""Takes lines of a stream (JSON values), and how many lines were dropped before them."""


class Peers(Protocol):
    """The other workers, as the first worker sees them. It is empty in all other workers and in a single process."""

    async def ask(self, service: str, question: Any) -> list[Any]:
        """Asks this service of each other worker. Returns the answers (JSON values) that come within 2 s."""

    async def open(self, service: str, request: Any, push: Push) -> int:
        """Opens a stream in each other worker, also in those that start later. Returns its number."""

    async def close(self, number: int) -> None:
        """Closes a stream."""


class Stream(Protocol):
    """Lines that a worker sends to the first one as they come. `closed` is True when no more will come."""

    closed: bool

    async def wait(self) -> None:
        """Returns once a line is available or the stream is closed."""

    def take(self, most: int) -> tuple[Sequence[bytes], int]:
        """The oldest lines (JSON values), and how many were dropped since the last call."""


@runtime_checkable
class Reloader(Protocol):
    """The service `reload`, which reads the config's files. `enabled` is False if the gateway's config must not change:
    it has no files, or `reload` is off. `loaded` is the config in use, None if it came from no files. Whatever uses or
    changes files has the `lock`."""

    enabled: bool
    loaded: Loaded | None
    lock: anyio.Lock

    def ask(self) -> None:
        """Requests a reload. Several requests before it starts are one."""

    async def reload_locked(self) -> list[Fault]:
        """Reads the files again and uses them. Returns the faults; a config with faults changes nothing."""

    async def load(self, documents: Sequence[Node] = (), without: Collection[Path] = ()) -> Loaded:
        """Reads the files, with more documents and without some files (`load_all`). Raises `ConfigError`."""

    def took(self, loaded: Loaded, changes: str, failed: Mapping[Place, str], began_ns: int) -> list[Fault]:
        """The gateway now runs this config, except for what failed to start; it was read at `began_ns` or later."""


class Changes(Protocol):
    """What services may change in a running gateway."""

    @property
    def paused(self) -> frozenset[str]:
        """The names of paused triggers."""

    def pause(self, names: Collection[str]) -> None:
        """Pauses these triggers and resumes all others. A paused one starts no attempts; those under way finish."""

    def halt(self, names: Collection[str]) -> None:
        """For as long as a service works on them, these triggers make no attempts in this worker, whether an operator
        paused them or not. It replaces those of before."""

    async def replace_config(
        self, config: GatewayConfig, commit: Callable[[], None] | None = None
    ) -> tuple[str, dict[Place, str]]:
        """Changes the running gateway to another config: only what changed is restarted. Returns what changed, and what
        could not be started, by its place (everything else runs; the next change tries that again). Raises
        `ConfigError` or `StartError` if nothing was done.

        `commit` runs in a thread once the config is known to be possible, before anything changes: it saves the config
        for the next start. Its exceptions are passed on.
        """

    def report_config(self, error: str | None, read_ns: int) -> None:
        """What the status says of the latest config: why it is not in force (None if it is), and when its files were
        read (Unix time)."""

    def spread(self) -> None:
        """Makes the other workers reload, if this is the first one."""

    def watch(self, observers_of: ObserversOf) -> None:
        """Adds observers of events from now on, those that `observers_of` returns for each
        entry. It is asked now and after each change of the config; call it again when its answers change. They are on
        the hot path: they must be quick, and not raise."""

    def unwatch(self, observers_of: ObserversOf) -> None:
        """Removes these observers."""


class Statuses(Protocol):
    """What works in a gateway, and what it has counted and measured."""

    @property
    def failed(self) -> Mapping[Place, str]:
        """What the last change of the config could not start, and why."""

    def condition(self, section: str, name: str) -> Condition:
        """Whether an entry of the config works, as this worker sees it; `ready` is None while that is not known."""

    def status(self) -> GatewayStatus:
        """The status of all workers together (`tidegate status`)."""

    def status_in_steps(self, wanted: Collection[str] | None = None) -> Generator[None, None, GatewayStatus]:
        """The same in many short steps, so that thousands of triggers hold up no events; or with the triggers `wanted`
        only, and then without components' own metrics. What a step adds is of its own moment."""

    def others(self) -> Sequence[GatewayStatus]:
        """The latest status of each other worker, in the first worker; at most half a second old."""


class GatewayView(Changes, Statuses, Protocol):
    """A running gateway (one worker of it), as a service sees it. What it returns must not be changed.

    `worker` counts from 0, `workers` is how many there are; the first one answers for all. `started` is True once
    everything has started, `stopping` once the gateway stops. `config` is the running config, without what could not be
    started. `registry` has all components that are installed.
    """

    worker: int
    workers: int
    started: bool
    stopping: bool
    clock: Clock
    settings: Settings

    @property
    def config(self) -> GatewayConfig: ...
    @property
    def registry(self) -> Registry: ...
    @property
    def peers(self) -> Peers: ...
    @property
    def topology(self) -> Topology:
        """The running parts. A change of the config replaces the whole topology at once, when it is complete."""

    @property
    def services(self) -> Mapping[str, RunningService]:
        """All services by name, once all are built."""

    @property
    def reloader(self) -> Reloader | None:
        """What reads the config's files; None if no plugin offers the service `reload`."""

    @property
    def files(self) -> Sequence[Path]:
        """The config files and folders that the gateway was started with; empty if its config came from none."""

    @property
    def read(self) -> Loaded | None:
        """The config as it was read from files at the start, None if it came from none."""

    @property
    def config_read_ns(self) -> int:
        """When the files of the latest config were read (Unix time); 0 if it came from none."""

    @property
    def data_dir(self) -> Path:
        """Where the gateway keeps its state; absolute. A service makes a sub-folder named after itself."""

    @property
    def pid(self) -> int:
        """The process id of the gateway: that of its supervisor, if it has several workers."""

    @property
    def addresses(self) -> Mapping[str, str]:
        """Where services can be reached, by kind."""

    @property
    def ingress(self) -> Mapping[str, list[str]]:
        """Addresses by broker (or bridge)."""

    @property
    def running(self) -> bool:
        """True between start and stop."""

    @property
    def ready(self) -> bool:
        """True while every ingress takes events and every channel can be written."""


class RunningService:
    """The base of services. Override what you need; everything here does nothing."""

    async def start(self, tasks: TaskGroup) -> None:
        """Starts before any component does. Raises `StartError`. What it starts lives in `tasks`."""

    async def stop(self) -> None:
        """Stops, after all components have stopped."""

    def addresses(self) -> Mapping[str, str]:
        """Where the service can be reached, by kind ("admin"). Commands find them in the data directory."""
        return {}

    def reloading(self, loaded: Loaded) -> None:
        """A reload from the config's files is about to bring this. Raises `StartError` or `ConfigError` to stop it."""

    def wanted(self, config: GatewayConfig) -> None:
        """A reload is about to bring the gateway to this config."""

    def reached(self, wanted: GatewayConfig) -> None:
        """A start or reload has ended. The gateway's own config is `wanted` without what could not be started."""

    def changed(self) -> None:
        """Something in the status has changed, such as which triggers are paused."""

    def process(self) -> ProcessStatus | None:
        """What this process uses, for the status; None if the service does not know. It must be quick."""
        return None

    def replay_status(self) -> ReplaysStatus | None:
        """The replays that it runs, for the status. It must be quick."""
        return None

    def answer(self, question: Any) -> Any:
        """Answers what the same service in the first worker asked (`Peers.ask`). JSON values; must not block."""

    def open(self, request: Any) -> Stream | None:
        """Opens a stream for the first worker (`Peers.open`); None if the request can't be served."""

    def close(self, stream: Stream) -> None:
        """Closes a stream that `open` returned."""


@dataclass(frozen=True, slots=True)
class Service:
    """The descriptor that a plugin offers.

    `name`      unique among services.
    `summary`   one sentence for lists and pages.
    `build`     constructor: gateway -> `RunningService`. The gateway is not running yet.
    `first`     True if it starts before the other services, and stops after them.
    """

    name: str
    summary: str
    build: Callable[[GatewayView], RunningService]
    first: bool = False
