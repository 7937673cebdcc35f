"""`tidegate run`: a runner that a plugin offers, or one process that does everything."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import anyio

from ..config.config_read import read_config, registry_of
from ..config.registry import Registry
from ..contract.data_folder import DataFolder
from ..contract.errors import ConfigError
from ..contract.runners import ConfigRead, Started
from ..contract.settings import Settings
from ..contract.stopping import StopSignals
from . import start_conditions
from .gateway import Gateway, Task

log = logging.getLogger("tidegate")


def run(
    paths: Sequence[str | Path],
    settings: Settings,
    *,
    registry: Registry | None = None,
    on_started: Callable[[Started], None] = lambda started: None,
) -> int:
    """Runs a gateway until SIGINT or SIGTERM; a second signal ends it at once. Returns the exit code: 0, or 130 where
    it was ended at once. Raises `ConfigError` and `StartError`."""
    _fill_standard_files()
    registry = registry or Registry.installed()
    config = read_config([Path(p) for p in paths], settings, registry)
    if faults := start_conditions.of_settings(settings, registry):
        raise ConfigError(faults)
    runner = registry.runner(settings)
    return runner.run(config, on_started) if runner is not None else run_process(config, on_started)


def _fill_standard_files() -> None:
    """Opens standard input and output if the parent closed them. Otherwise the next open file would get their numbers,
    and libuv aborts a process that closes one of these."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


Watch = Callable[[StopSignals], AbstractContextManager[None]]


def run_process(
    config: ConfigRead,
    on_started: Callable[[Started], None],
    watch: Watch = lambda signals: nullcontext(),
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> int:
    """Runs the gateway on a new `loop` until a signal, inside `watch`. Returns the exit code. Raises `StartError`."""
    return anyio.run(_run, config, on_started, watch, backend_options={"use_uvloop": True, "loop_factory": loop})


async def _run(config: ConfigRead, on_started: Callable[[Started], None], watch: Watch) -> int:
    settings, stop = config.settings, anyio.Event()

    def begin_stop() -> None:
        log.info("stopping: deliveries under way have %g s; another signal ends at once", settings.drain_timeout_s)
        stop.set()

    with StopSignals(asyncio.get_running_loop(), begin_stop) as signals, watch(signals):
        DataFolder(settings.data_dir.absolute())  # its name may be impossible on this machine
        with start_conditions.as_faults():
            gateway = Gateway(config.loaded.config, settings, registry_of(config), read=config)

        def started() -> None:
            on_started(Started(gateway.status(), gateway.ingress, gateway.addresses))

        await serve(gateway, stop, started)
    return 0


async def serve(gateway: Gateway, stop: anyio.Event, started: Callable[[], None], *beside: Task) -> None:
    """Runs a process's gateway until `stop` is set, with the tasks `beside`. Raises `StartError`."""
    begun = anyio.Event()

    async def follow() -> None:
        await begun.wait()
        gc.freeze()  # events are never in cycles, and what exists would only make each run slower
        gc.set_threshold(10_000, 20, 50)
        sys.setswitchinterval(0.0001)  # the log's writer waits for the event loop this long
        started()

    await gateway.run(stop, begun, follow, *beside)
