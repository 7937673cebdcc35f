"""`tidegate run`: one process that does everything, or a supervisor with workers if `workers` is more than one."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from ..config.load import Loaded, load_all
from ..config.registry import Registry
from ..contract.descriptors import raise_limit
from .applied import all_paths
from .gateway import Gateway
from .lifecycle import Started, following, has_uvloop, live, spare_collector
from .reloader import Reloader
from .settings import Settings
from .stopping import StopSignals
from .supervisor import Supervisor
from .watchdog import Watchdog

log = logging.getLogger("tidegate")


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
        supervisor = Supervisor(files, settings, on_started)
        return anyio.run(supervisor.run, backend_options={"use_uvloop": has_uvloop()})
    job = _Alone(files, settings, registry, loaded, since_ns, on_started)
    return anyio.run(_serve, job, backend_options={"use_uvloop": has_uvloop()})


def _fill_standard_files() -> None:
    """Opens standard input and output if the parent closed them. Otherwise the next open file would get their numbers,
    and libuv aborts a process that closes one of these."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


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
                job.on_started(Started(gateway.status(), gateway.ingress, gateway.addresses))

        follow = following(gateway, reloader, settings, lambda: None, started)
        await live(gateway, stop, started, announce, *follow)
    return 0
