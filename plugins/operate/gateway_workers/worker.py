"""One worker of several, in a process of its own: `python -m gateway_workers.worker FD FD`, begun by the supervisor.

The first descriptor is its wire to the supervisor, the second a file into which the stacks of all threads are written
at SIGUSR1. Standard output stays free for plugins and libraries that print.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from gateway_core.config.config_read import read_config, registry_of
from gateway_core.config.registry import Registry
from gateway_core.contract.errors import ConfigError, TidegateError
from gateway_core.contract.runners import Started
from gateway_core.contract.settings import Settings
from gateway_core.contract.status import GatewayStatus
from gateway_core.contract.stopping import StopSignals
from gateway_core.runtime import start_conditions
from gateway_core.runtime.gateway import Gateway
from gateway_core.runtime.log_output import configure
from gateway_core.runtime.role import Role
from gateway_core.runtime.run import serve

from .event_loop import EventLoop
from .rpc import PeerClient, PeerServer
from .status import merge
from .watchdog import BEAT_S
from .wire import Note, Wire

STATUS_EVERY_S = 0.5
STATUS_AT_LEAST_EVERY_S = 5.0
PART = 10
"""With very many triggers a status is rarer, so that it takes less than a part in so many of the time."""
SLICE = 50
"""Triggers after which everything else has its turn."""

_status = msgspec.json.Decoder(GatewayStatus)
_statuses = msgspec.json.Decoder(list[GatewayStatus])
FETCH_WAITS_S = (0.5, 1.0, 2.0, 5.0, 10.0)
COULD_NOT_START = 3
_PR_SET_PDEATHSIG = 1


class WorkerRole(Role):
    """One worker of several. The first one learns from the supervisor about the others."""

    def __init__(self, worker: int, began: float, wire: Wire) -> None:
        super().__init__()
        self.worker, self.pid, self.began = worker, os.getppid(), began
        self.locks = self.fetches = False
        self.peers = self._peers = PeerClient()
        self._wire = wire
        self._latest: dict[int, GatewayStatus] = {}
        self._ended: list[GatewayStatus] = []  # the counts of workers that have ended, merged

    def others(self) -> list[GatewayStatus]:
        """At most half a second old."""
        return list(self._latest.values())

    def whole(self, status: GatewayStatus) -> GatewayStatus:
        return merge(status, [*self.others(), *self._ended])

    def spread(self) -> None:
        if self.worker == 0:
            self._wire.say("reload")

    def take(self, note: Note) -> None:
        """Takes a note of the supervisor about the others."""
        match note.kind:
            case "status":
                self._latest[note.worker] = note.read(_status)
            case "ended":
                self._ended = note.read(_statuses)
            case "talk":
                self._peers.hear(bytes(note.body))  # type: ignore[arg-type]
            case "joined":
                self._peers.joined(note.worker, partial(_tell, self._wire, note.worker))
            case "left":
                self._latest.pop(note.worker, None)
                self._peers.left(note.worker)


async def _work(sock: socket.socket) -> int:
    wire = Wire(sock, "supervisor")
    await wire.open()
    notes = wire.notes()
    begun = await anext(notes, None)
    if begun is None:  # the supervisor has ended
        return COULD_NOT_START
    job = begun.value()
    settings = Settings.model_validate({**job["settings"], "admin_token": job["token"]})
    configure(settings)
    loop, stop = asyncio.get_running_loop(), anyio.Event()
    beat(loop, wire)
    # a terminal sends SIGINT and SIGHUP to all processes, systemd SIGTERM: the supervisor decides
    with StopSignals(loop, stop.set, supervised=True):
        try:
            await _serve(wire, notes, job, settings, stop)
        except TidegateError as e:
            wire.say("refused" if isinstance(e, ConfigError) else "failed", str(e))
            await anyio.sleep(0.05)  # so that the note is written
            return COULD_NOT_START
        finally:
            wire.close()
    return 0


def beat(loop: asyncio.AbstractEventLoop, wire: Wire) -> None:
    """Tells the supervisor regularly that the loop turns."""
    wire.say("beat")
    loop.call_later(BEAT_S, beat, loop, wire)


async def _serve(
    wire: Wire, notes: AsyncIterator[Note], job: dict[str, Any], settings: Settings, stop: anyio.Event
) -> None:
    gc.set_threshold(1_000_000)  # as in a gateway of one process (`serve` sets another)
    config = read_config([Path(p) for p in job["paths"]], settings, Registry.installed())
    role = WorkerRole(job["worker"], job["began"], wire)
    with start_conditions.as_faults():
        gateway = Gateway(config.loaded.config, settings, registry_of(config), role=role, read=config)
    started = anyio.Event()

    async def report() -> None:
        await started.wait()
        said = Started(gateway.status(), gateway.ingress, gateway.addresses)
        wire.say("started", said if role.worker == 0 else None)
        while True:
            began = time.monotonic()
            wire.say("status", await own_status(gateway))
            took = time.monotonic() - began
            await anyio.sleep(min(max(STATUS_EVERY_S, PART * took), STATUS_AT_LEAST_EVERY_S))

    async def fetch() -> None:
        await started.wait()
        for wait_s in chain(FETCH_WAITS_S, repeat(FETCH_WAITS_S[-1])):
            if await gateway.fetch():
                return
            await anyio.sleep(wait_s)

    async def listen() -> None:
        listener = PeerServer(gateway.services, partial(_tell, wire, 0))
        async with anyio.create_task_group() as tasks:
            async for note in notes:
                match note.kind:
                    case "reload":
                        if gateway.reloader is not None:
                            gateway.reloader.ask()
                    case "fetch":
                        tasks.start_soon(fetch)
                    case _ if role.worker == 0:
                        role.take(note)
                    case "talk":
                        listener.hear(bytes(note.body), tasks)  # type: ignore[arg-type]
            stop.set()  # the supervisor died

    await serve(gateway, stop, started.set, report, listen)


async def own_status(gateway: Gateway) -> GatewayStatus:
    """`Gateway.own_status_in_steps`, in slices."""
    steps = gateway.own_status_in_steps()
    number = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: GatewayStatus = end.value
            return made
        number += 1
        if number % SLICE == 0:
            await anyio.lowlevel.checkpoint()


def _tell(wire: Wire, worker: int, line: bytes) -> None:
    """Sends a line to another worker."""
    wire.pass_on(Note("talk", worker, msgspec.Raw(line)))


def _end_with_parent() -> None:
    """Makes the system kill this process when its parent ends: a worker that hangs would not notice, and keep its share
    of the ingress and the log."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def main() -> None:
    """Runs the worker, and exits with its code."""
    parent = os.getppid()
    _end_with_parent()
    wire, stacks = int(sys.argv[1]), int(sys.argv[2])
    for descriptor in (wire, stacks):
        os.set_inheritable(descriptor, False)  # not for what this worker starts
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    sock = socket.socket(fileno=wire)
    sock.setblocking(False)
    if os.getppid() != parent:
        sys.exit(COULD_NOT_START)  # it died before the system was told
    sys.exit(anyio.run(_work, sock, backend_options={"loop_factory": EventLoop}))


if __name__ == "__main__":
    main()
