"""The process that starts the workers and does nothing else: it runs no component and handles no event, so that no
event can hold it up.

It restarts workers that ended, kills workers whose loop hangs, and assigns sources that run in one worker only to one
of them. The first worker answers for all (admin API, Spark's readers); messages between workers pass through here. If
the supervisor ends, the workers end too.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import anyio
import msgspec
from anyio.abc import Process, TaskGroup

from gateway_core.contract.data_folder import DataFolder
from gateway_core.contract.errors import ConfigError, Fault, StartError
from gateway_core.contract.runners import ConfigRead, Started
from gateway_core.contract.status import GatewayStatus
from gateway_core.contract.stopping import StopSignals

from .status import merge
from .watchdog import STOP_MORE_S, limit_of
from .wire import Note, Wire

log = logging.getLogger("tidegate.workers")

RESTART_WAITS_S = (0.5, 1.0, 2.0, 5.0, 10.0)
STEADY_S = 60.0
"""A worker that ran this long restarts with short waits."""
GIVE_UP_AFTER = 10
"""The gateway ends after this many failures in a row of every worker: the cause is then not a single event or
moment."""
TICK_S = 1.0
STACK_WITHIN_S = 0.5

_status = msgspec.json.Decoder(GatewayStatus)
_started = msgspec.json.Decoder(Started)


class Worker:
    """One worker and its current process."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: Process | None = None
        self.wire: Wire | None = None
        self.stacks: IO[bytes] | None = None
        self.started = False
        self.failures = 0
        self.said = ""  # why it could not start
        self.refused = False  # whether that is a fault of its config
        self.heard = False
        self.still_s = 0.0
        self.status: Note | None = None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless the process has ended."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)


class Supervisor:
    """Runs a gateway of several workers."""

    def __init__(self, config: ConfigRead, on_started: Callable[[Started], None]) -> None:
        self._paths = [str(path) for path in config.files]
        self._settings = settings = config.settings
        self._on_started = on_started
        self._workers = [Worker(number) for number in range(settings.workers)]
        self._began = time.monotonic()
        self._ended: list[GatewayStatus] = []  # the counts of workers that have ended, merged
        self._ever: set[int] = set()  # the numbers of workers that have started at least once
        self._fetching: Worker | None = None
        self._stopping = False
        self._stop = anyio.Event()
        self._fault: ConfigError | StartError | None = None
        self._tasks: TaskGroup

    async def run(self) -> int:
        """Runs until a signal. Returns the exit code; raises `ConfigError` and `StartError`."""
        folder = DataFolder(self._settings.data_dir.absolute())
        folder.claim()
        loop = asyncio.get_running_loop()
        try:
            with StopSignals(loop, self._begin_stop, self._kill):
                if self._settings.reload != "off":
                    loop.add_signal_handler(signal.SIGHUP, self._reload_first)
                async with anyio.create_task_group() as self._tasks:
                    for worker in self._workers[:1]:
                        self._tasks.start_soon(self._keep, worker)
                    self._tasks.start_soon(self._watch)
                    await self._stop.wait()
                    await self._finish()
                    self._tasks.cancel_scope.cancel()
        finally:
            self._kill()
            folder.leave()
        if self._fault is not None:
            raise self._fault
        return 0

    def _begin_stop(self) -> None:
        drain_s = self._settings.drain_timeout_s
        log.info("stopping: deliveries under way have %g s; another signal ends at once", drain_s)
        self._stop.set()

    async def _finish(self) -> None:
        """Lets all workers drain, and waits as long as that may take."""
        self._stopping = True
        for worker in self._workers:
            worker.signal(signal.SIGTERM)
        with anyio.move_on_after(self._settings.drain_timeout_s + STOP_MORE_S):
            for worker in self._workers:
                if worker.process is not None:
                    await worker.process.wait()
            return
        log.error("some workers did not stop in time; killing them")

    def _kill(self) -> None:
        self._stopping = True
        for worker in self._workers:
            worker.signal(signal.SIGKILL)

    # -- one worker -------------------------------------------------------------------------------------------------

    async def _keep(self, worker: Worker) -> None:
        """Runs one worker, and restarts it."""
        while not self._stopping:
            began = anyio.current_time()
            try:
                await self._run(worker)
            except OSError as e:  # no process can be started now: the others continue
                worker.said = str(e)
            if self._stopping:
                return
            if worker.number == 0 and len(self._ever) == 0:
                if worker.refused:
                    self._fault = ConfigError([Fault(worker.said)])
                    self._stop.set()
                    return
                self._end(worker.said or "the first worker ended before it had started")
                return
            worker.failures = 1 if anyio.current_time() - began > STEADY_S else worker.failures + 1
            if all(other.failures >= GIVE_UP_AFTER for other in self._workers):
                self._end(
                    f"every worker ended {GIVE_UP_AFTER} times in a row; the last one: {worker.said or 'no reason'}"
                )
                return
            wait_s = RESTART_WAITS_S[min(worker.failures, len(RESTART_WAITS_S)) - 1]
            why = f" ({worker.said})" if worker.said else ""
            log.error("worker %d ended%s; starting it again in %g s", worker.number, why, wait_s)
            await anyio.sleep(wait_s)

    def _end(self, reason: str) -> None:
        self._fault = StartError(reason)
        self._stop.set()

    async def _run(self, worker: Worker) -> None:
        ours, theirs = socket.socketpair()
        # -P: a file of the working directory never stands in for a module, as with the command itself
        command = [sys.executable, "-P", "-m", "gateway_workers.worker"]
        with theirs, tempfile.TemporaryFile(dir=self._settings.data_dir) as stacks:
            fds = (theirs.fileno(), stacks.fileno())
            worker.process = process = await anyio.open_process(
                [*command, *map(str, fds)], stdin=subprocess.DEVNULL, stdout=None, stderr=None, pass_fds=fds
            )
            theirs.close()
            worker.wire = wire = Wire(ours, f"worker {worker.number}")
            worker.stacks, worker.started, worker.said = stacks, False, ""
            worker.heard, worker.still_s = True, 0.0
            if self._stopping:  # in the meantime
                worker.signal(signal.SIGTERM)
            try:
                await wire.open()
                wire.say("job", self._job(worker))
                if worker.number == 0:
                    self._introduce(wire)
                async for note in wire.notes():
                    worker.heard = True
                    self._take(worker, note)
                await process.wait()
            finally:
                worker.signal(signal.SIGKILL)  # it closed its wire, so it is useless
                with anyio.CancelScope(shield=True):
                    await process.wait()
                wire.close()
                self._left(worker)
        if process.returncode and process.returncode < 0:
            worker.said = worker.said or f"signal {-process.returncode}"

    def _job(self, worker: Worker) -> dict[str, Any]:
        token = self._settings.admin_token
        return {
            "worker": worker.number,
            "paths": self._paths,
            "settings": self._settings.model_dump(mode="json", exclude_unset=True, exclude={"admin_token"}),
            "token": token.get_secret_value() if token else None,
            "began": self._began,
        }

    def _introduce(self, wire: Wire) -> None:
        """Tells a restarted first worker about the others."""
        wire.say("ended", self._ended)
        for other in self._workers[1:]:
            if other.started:
                wire.say("joined", worker=other.number)

    def _take(self, worker: Worker, note: Note) -> None:
        first = self._workers[0]
        match note.kind:
            case "status":
                worker.status = note
                if worker is not first and first.wire is not None:
                    first.wire.pass_on(Note("status", worker.number, note.body))
            case "talk":
                to = first if worker is not first else self._at(note.worker)
                if to is not None and to.wire is not None:
                    to.wire.pass_on(Note("talk", worker.number, note.body))
            case "started":
                self._started(worker, note)
            case "failed" | "refused":
                worker.said, worker.refused = str(note.value()), note.kind == "refused"
            case "reload":
                self._reload_others()

    def _at(self, number: int) -> Worker | None:
        return self._workers[number] if 0 < number < len(self._workers) else None

    def _started(self, worker: Worker, note: Note) -> None:
        worker.started = True
        first = self._workers[0]
        if worker is not first and first.wire is not None:
            first.wire.say("joined", worker=worker.number)
        self._hand_over()
        if worker is first and self._ever and self._settings.reload != "off":
            # it has read the files again; the one before may have ended before it told the others of a change
            self._reload_others()
        if worker is first and not self._ever:
            for other in self._workers[1:]:
                self._tasks.start_soon(self._keep, other)
            self._on_started(note.read(_started))
        self._ever.add(worker.number)

    def _left(self, worker: Worker) -> None:
        """Its process has ended: keeps its counts, and reassigns the sources that run in one worker only."""
        worker.wire, worker.stacks, worker.started = None, None, False
        first = self._workers[0]
        if worker.status is not None:
            self._ended = [merge(worker.status.read(_status).counts(), self._ended)]
            worker.status = None
            if first.wire is not None:
                first.wire.say("ended", self._ended)
        if worker is not first and first.wire is not None:
            first.wire.say("left", worker=worker.number)
        if self._fetching is worker:
            self._fetching = None
            self._hand_over()

    def _hand_over(self) -> None:
        """Assigns the sources that run in one worker only, once the worker that had them has ended."""
        if self._fetching is not None or self._stopping:
            return
        for worker in self._workers:
            if worker.started and worker.wire is not None:
                self._fetching = worker
                worker.wire.say("fetch")
                if self._ever:
                    log.info("worker %d runs the sources that run in one worker only", worker.number)
                return

    def _reload_others(self) -> None:
        for other in self._workers[1:]:
            if other.wire is not None:
                other.wire.say("reload")

    def _reload_first(self) -> None:
        wire = self._workers[0].wire
        if wire is not None:
            wire.say("reload")

    # -- watching ---------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Counts ticks, not seconds: there are none while the machine sleeps or the supervisor is stopped."""
        limit_s = self._settings.watchdog_s
        while True:
            await anyio.sleep(TICK_S)
            for worker in self._workers:
                if worker.heard or worker.process is None or _is_stopped(worker.process.pid):
                    worker.heard, worker.still_s = False, 0.0
                    continue
                worker.still_s += TICK_S
                if limit_s and worker.wire is not None and worker.still_s >= limit_of(limit_s, worker.started):
                    await self._replace(worker)

    async def _replace(self, worker: Worker) -> None:
        """Kills a worker that hangs; `_keep` restarts it."""
        still_s, worker.still_s = worker.still_s, 0.0
        worker.signal(signal.SIGUSR1)  # C code writes the stacks
        await anyio.sleep(STACK_WITHIN_S)
        stacks = b""
        if worker.stacks is not None:
            worker.stacks.seek(0)
            stacks = worker.stacks.read()
        text = stacks.decode(errors="replace").rstrip() or "(no stack)"
        log.error(
            "worker %d: its loop has not turned for %g s; killing it. It was in\n%s", worker.number, still_s, text
        )
        worker.said = f"it hung for {still_s:g} s"
        worker.signal(signal.SIGKILL)


def _is_stopped(pid: int) -> bool:
    """Whether a process is stopped (SIGSTOP, a debugger): then its loop does not hang."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in "Tt"
