"""Processes: the one that is started, and the workers that it starts where `workers` is more than one.

Every worker runs the whole config on its own shard of each channel and shares the ingress addresses (`SO_REUSEPORT`).
The first one also answers for all: admin API, readers such as Spark, and the others' lives. A worker that dies is
started again; when the first one dies, however, the others notice their standard input end, and stop.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process, TaskGroup

from .applied import Applied, applied_dir
from .config.load import Loaded, load, load_all
from .config.model import GatewayConfig
from .control import Control
from .errors import StartError
from .registry import Registry
from .reloader import Reloader, all_paths
from .runtime import Gateway
from .serving.descriptors import raise_limit
from .settings import Settings
from .status import counts_of, merge
from .talk import Listener, Talk

log = logging.getLogger("tidegate.workers")

STATUS_EVERY_S = 0.5
RESTART_WAITS_S = (0.5, 1.0, 2.0, 5.0, 10.0)


def run(
    paths: Sequence[str | Path],
    settings: Settings,
    *,
    registry: Registry | None = None,
    config: GatewayConfig | None = None,
    on_started: Callable[[Gateway], None] | None = None,
) -> int:
    """Runs a gateway until SIGINT or SIGTERM; a second signal ends it at once. Returns the exit code: 0, or 130 where
    it was ended at once. Raises `ConfigError` and `StartError`."""
    registry = registry or Registry.installed()
    since_ns = time.time_ns()
    if config is None:
        loaded = load_all(all_paths([Path(p) for p in paths], settings), registry)
    else:
        loaded = Loaded(config, [], [])
    raise_limit()
    try:
        import uvloop  # noqa: F401

        fast = True
    except ImportError:
        fast = False
    return anyio.run(
        _serve,
        *(loaded, settings, registry, [str(p) for p in paths], since_ns, on_started),
        backend_options={"use_uvloop": fast},
    )


async def _serve(
    loaded: Loaded,
    settings: Settings,
    registry: Registry,
    paths: list[str],
    since_ns: int,
    on_started: Callable[[Gateway], None] | None,
) -> int:
    crew = Crew(paths, settings)
    gateway = Gateway(loaded.config, settings, registry, others=crew.statuses, ended=crew.ended)
    gateway.colleagues = crew.talk
    reloader = Reloader(
        gateway, [Path(p) for p in paths], settings, registry, crew.reload, loaded=loaded, since_ns=since_ns
    )
    if paths and settings.reload != "off":
        gateway.control = Control(gateway, reloader, Applied(applied_dir(settings)), crew.reload)
    stop, started = anyio.Event(), anyio.Event()
    code = 0

    async def announce() -> None:
        await started.wait()
        _spare_collector()
        await crew.start(tasks)
        if on_started is not None:
            on_started(gateway)
        if settings.reload == "watch" and paths:
            tasks.start_soon(reloader.watch)

    async def watch_signals() -> None:
        nonlocal code
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                if stop.is_set():
                    code = 130
                    await crew.kill()
                    # a drain is shielded from cancellation: it can only be left by leaving
                    logging.shutdown()
                    _leave(code)
                stop.set()
                log.info(
                    "stopping: deliveries under way have %g s; another signal ends at once", settings.drain_timeout_s
                )
                crew.end()

    fault: StartError | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_signals)
        tasks.start_soon(announce)
        if settings.reload != "off" and paths:
            tasks.start_soon(reload_on_signal, reloader, started)
        try:
            await gateway.run(stop, started)
        except StartError as e:
            fault = e
        await crew.stop(settings.drain_timeout_s)
        tasks.cancel_scope.cancel()
    if fault is not None:
        raise fault
    return code


async def reload_on_signal(reloader: Reloader, started: anyio.Event) -> None:
    """SIGHUP: the config is read again."""
    with anyio.open_signal_receiver(signal.SIGHUP) as signals:
        await started.wait()
        async for _ in signals:
            await reloader.reload()


def _spare_collector() -> None:
    """The garbage collector leaves what was made so far alone, and looks less often: events are in no cycles, but the
    many that the channel keeps in memory make each look longer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def _leave(code: int) -> None:
    os._exit(code)


class Crew:
    """The other workers, seen from the first."""

    def __init__(self, paths: list[str], settings: Settings) -> None:
        self._paths = paths
        self._settings = settings
        self._processes: dict[int, Process] = {}
        self._latest: dict[int, dict[str, Any]] = {}
        self._ended: list[dict[str, Any]] = []
        self.talk = Talk()
        self._stopping = False

    def statuses(self) -> list[dict[str, Any]]:
        """The latest status of each, at most half a second old."""
        return list(self._latest.values())

    def ended(self) -> list[dict[str, Any]]:
        """What those that ended had counted, in one."""
        return self._ended

    async def start(self, tasks: TaskGroup) -> None:
        for worker in range(1, self._settings.workers):
            tasks.start_soon(self._keep, worker)

    async def _keep(self, worker: int) -> None:
        """Runs one worker, again and again."""
        failures = 0
        while not self._stopping:
            began = anyio.current_time()
            try:
                await self._run(worker)
            except OSError as e:  # the machine has no process to give now: the others go on
                log.error("worker %d: %s", worker, e)
            if self._stopping:
                return
            failures = 1 if anyio.current_time() - began > 60 else failures + 1
            wait = RESTART_WAITS_S[min(failures, len(RESTART_WAITS_S)) - 1]
            log.error("worker %d ended; starting it again in %g s", worker, wait)
            await anyio.sleep(wait)

    async def _run(self, worker: int) -> None:
        job = {"worker": worker, "paths": self._paths, "settings": self._settings.model_dump(mode="json")}
        command = [sys.executable, "-m", "gateway_core.workers", json.dumps(job)]
        process = await anyio.open_process(command, stderr=None)
        self._processes[worker] = process
        if self._stopping:  # since the process was asked for
            process.terminate()
        assert process.stdout is not None
        assert process.stdin is not None
        buffer = b""
        try:
            await self.talk.joined(worker, process.stdin.send)
            async for chunk in process.stdout:
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    with suppress(ValueError):  # a line that a library printed
                        if not self.talk.heard(line):
                            self._latest[worker] = json.loads(line)
            await process.wait()
        finally:
            self.talk.left(worker)
            self._processes.pop(worker, None)
            if worker in self._latest:
                self._ended = [merge(counts_of(self._latest.pop(worker)), self._ended)]

    def reload(self) -> None:
        """Asks all to read the config again."""
        for process in self._processes.values():
            if process.returncode is None:
                process.send_signal(signal.SIGHUP)

    def end(self) -> None:
        """Asks all to drain."""
        self._stopping = True
        for process in self._processes.values():
            if process.returncode is None:
                process.terminate()

    async def stop(self, within_s: float) -> None:
        """Asks all to drain, and waits as long as they may take."""
        self.end()
        processes = list(self._processes.values())
        with anyio.move_on_after(within_s + 5):
            for process in processes:
                await process.wait()
        await self.kill()

    async def kill(self) -> None:
        self._stopping = True
        for process in list(self._processes.values()):
            if process.returncode is None:
                process.kill()


async def _work(worker: int, paths: list[str], settings: Settings) -> None:
    """One of the other workers: status and answers are lines on standard output, questions come on standard input, and
    its end means stop."""
    registry = Registry.installed()
    files = [Path(p) for p in paths]
    began_ns = time.time_ns()
    gateway = Gateway(load(all_paths(files, settings), registry), settings, registry, worker=worker)
    gateway.config_read_ns = began_ns
    reloader = Reloader(gateway, files, settings, registry)
    stop, started = anyio.Event(), anyio.Event()

    async def report() -> None:
        await started.wait()
        _spare_collector()
        while True:
            say(json.dumps(gateway.status()).encode())
            await anyio.sleep(STATUS_EVERY_S)

    def say(line: bytes) -> None:
        with suppress(BrokenPipeError):  # the first worker died; `listen` stops us
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()

    async def listen() -> None:
        listener = Listener(gateway.taps, registry, gateway.answer, say)
        while True:
            await anyio.wait_readable(0)
            chunk = os.read(0, 65_536)
            if not chunk:  # the first worker died
                stop.set()
                return
            listener.hear(chunk, tasks)

    async def terminated() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                if number == signal.SIGTERM:  # SIGINT goes to the whole terminal group; the first worker decides
                    stop.set()

    async with anyio.create_task_group() as tasks:
        for task in (report, listen, terminated):
            tasks.start_soon(task)
        tasks.start_soon(reload_on_signal, reloader, started)
        await gateway.run(stop, started)
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    from .logs import configure

    _job = json.loads(sys.argv[1])
    _settings = Settings.model_validate(_job["settings"])
    configure(_settings)
    raise_limit()
    anyio.run(_work, _job["worker"], _job["paths"], _settings, backend_options={"use_uvloop": True})
