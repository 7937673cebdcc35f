"""Services run beside the components of a gateway: the admin API is one, inspection another.

A service sees the gateway (`GatewayView`) and its other services, and answers questions of the other workers. Every
worker builds all services.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from anyio.abc import TaskGroup

from .clock import Clock
from .status import GatewayStatus

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


class GatewayView(Protocol):
    """A running gateway (one worker of it), as a service sees it. What it returns must not be changed.

    `worker` counts from 0, `workers` is how many there are; the first one answers for all. `started` is True once
    everything has started, `stopping` once the gateway stops.
    """

    worker: int
    workers: int
    started: bool
    stopping: bool
    clock: Clock
    peers: Peers

    @property
    def services(self) -> Mapping[str, RunningService]:
        """All services by name, once all are built."""

    @property
    def data_dir(self) -> Path:
        """Where the gateway keeps its state; absolute. A service makes a sub-folder named after itself."""

    @property
    def ready(self) -> bool:
        """True while every ingress takes events and every channel can be written."""

    def status(self) -> GatewayStatus:
        """The status of all workers together (`tidegate status`)."""


class RunningService:
    """The base of services. Override what you need; everything here does nothing."""

    async def start(self, tasks: TaskGroup) -> None:
        """Starts before any component does. Raises `StartError`. What it starts lives in `tasks`."""

    async def stop(self) -> None:
        """Stops after all components have stopped."""

    def addresses(self) -> Mapping[str, str]:
        """Where the service can be reached, by kind ("admin"). Commands find them in the data directory."""
        return {}

    def reloading(self, loaded: Any) -> None:
        """A reload from the config's files is about to bring this. Raises `StartError` or `ConfigError` to stop it."""

    def wanted(self, config: Any) -> None:
        """A reload is about to bring the gateway to this config."""

    def reached(self, wanted: Any) -> None:
        """A start or reload has ended. The gateway's own config is `wanted` without what could not be started."""

    def changed(self) -> None:
        """Something in the status has changed, such as which triggers are paused."""

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
    `build`     constructor: gateway -> `RunningService`. The gateway is a `GatewayView`; it is not running yet.
    `first`     True if it starts before the other services, and stops after them.
    """

    name: str
    summary: str
    build: Callable[[Any], RunningService]
    first: bool = False
