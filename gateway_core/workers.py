"""`tidegate run`: one process that does everything, or a supervisor with workers where `workers` is more than one."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from .applied import Applied, all_paths, applied_dir
from .config.load import Loaded, load_all
from .control import Control
from .errors import StartError
from .registry import Registry
from .reloader import Reloader
from .runtime import Gateway
from .serving.descriptors import raise_limit
from .settings import Settings
from .stopping import StopSignals
from .watchdog import Watchdog

log = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class Started:
    """What there is to say of a gateway that has started: its status, addresses, and where its admin API answers."""

    status: dict[str, Any]
    ingress: dict[str, list[str]]
    admin: str | None


def run(
    paths: Sequence[str | Path],
    settings: Settings,
    *,
    registry: Registry | None = None,
    on_started: Callable[[Started], None] | None = None,
) -> int:
    """Runs a gateway until SIGINT or SIGTERM; a second signal ends it at once. Returns the exit code: 0, or 130 where
    it was ended at once. Raises `ConfigError` and `StartError`."""
    _fill_standard_files()
    registry = registry or Registry.installed()
    since_ns = time.time_ns()
    files = [Path(p) for p in paths]
    loaded = load_all(all_paths(files, settings), registry)
    raise_limit()
    if settings.workers > 1:
        from .supervisor import Supervisor

        supervisor = Supervisor(files, settings, on_started)
        return anyio.run(supervisor.run, backend_options={"use_uvloop": has_uvloop()})
    job = _Alone(files, settings, registry, loaded, since_ns, on_started)
    return anyio.run(_serve, job, backend_options={"use_uvloop": has_uvloop()})


def _fill_standard_files() -> None:
    """Whoever starts a gateway may have closed its standard input or output: the next file that is opened would take
    their place, and the loop's library ends a process that closes such a one."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def has_uvloop() -> bool:
    """Whether the faster loop is installed."""
    try:
        import uvloop  # noqa: F401
    except ImportError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Alone:
    files: list[Path]
    settings: Settings
    registry: Registry
    loaded: Loaded
    since_ns: int
    on_started: Callable[[Started], None] | None


async def _serve(job: _Alone) -> int:
    settings, stop, started = job.settings, anyio.Event(), anyio.Event()
    loop = asyncio.get_running_loop()

    def begin_stop() -> None:
        log.info("stopping: deliveries under way have %g s; another signal ends at once", settings.drain_timeout_s)
        stop.set()

    with (
        StopSignals(loop, begin_stop) as signals,
        Watchdog(loop, settings.watchdog_s, signals, settings.drain_timeout_s) as watchdog,
    ):
        gateway = Gateway(job.loaded.config, settings, job.registry)
        reloader = Reloader(gateway, job.files, settings, job.registry, loaded=job.loaded, since_ns=job.since_ns)

        async def announce() -> None:
            await started.wait()
            watchdog.started()
            spare_collector()
            if job.on_started is not None:
                job.on_started(Started(gateway.status(), gateway.ingress, gateway.admin_at))

        follow = following(gateway, reloader, settings, lambda: None, started)
        await live(gateway, stop, started, announce, *follow)
    return 0


Task = Callable[[], Coroutine[Any, Any, None]]


def following(
    gateway: Gateway, reloader: Reloader, settings: Settings, spread: Callable[[], None], started: anyio.Event
) -> list[Task]:
    """What keeps the gateway that answers for all at its config: changes by the admin API, by SIGHUP, by the files.
    `spread` tells the other workers."""
    if settings.reload == "off" or not reloader.paths:
        return []
    gateway.control = Control(gateway, reloader, Applied(applied_dir(settings)), spread)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.ask)

    async def reload() -> None:
        await started.wait()
        await reloader.answer()

    async def watch() -> None:
        await started.wait()
        await reloader.watch()

    return [reload, watch] if settings.reload == "watch" else [reload]


async def live(gateway: Gateway, stop: anyio.Event, started: anyio.Event, *beside: Task) -> None:
    """Runs the gateway, and what belongs to it beside it. Raises `StartError`."""
    fault: StartError | None = None
    async with anyio.create_task_group() as tasks:
        for task in beside:
            tasks.start_soon(task)
        try:
            await gateway.run(stop, started)
        except StartError as e:
            fault = e
        tasks.cancel_scope.cancel()
    if fault is not None:
        raise fault


def spare_collector() -> None:
    """The garbage collector leaves what was made so far alone, and looks less often: events are in no cycles, but the
    many that the channel keeps in memory make each look longer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
