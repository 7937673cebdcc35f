"""One worker of several, in a process of its own: `python -m gateway_core.runtime.worker FD FD`, begun by the
supervisor.

The first descriptor is its wire to the supervisor, the second a file into which the stacks of all threads are written
at SIGUSR1. Standard output stays free for plugins and libraries that print.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from ..config.load import load_all
from ..config.registry import Registry
from ..contract.descriptors import raise_limit
from ..contract.errors import TidegateError
from .applied import all_paths
from .gateway import Gateway, Supervised
from .lifecycle import following, has_uvloop, live, spare_collector
from .log_output import configure
from .reloader import Reloader
from .settings import Settings
from .stopping import StopSignals
from .watchdog import BEAT_S
from .wire import Note, Wire
from .worker_rpc import PeerClient, PeerServer, Send

STATUS_EVERY_S = 0.5
COULD_NOT_START = 3
_PR_SET_PDEATHSIG = 1


class OtherWorkers:
    """What the first worker learns from the supervisor about the others."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._latest: dict[int, dict[str, Any]] = {}
        self._ended: list[dict[str, Any]] = []
        self.peers = PeerClient()

    def statuses(self) -> list[dict[str, Any]]:
        """The latest status of each worker, at most half a second old."""
        return list(self._latest.values())

    def ended(self) -> list[dict[str, Any]]:
        """The counts of workers that have ended, merged."""
        return self._ended

    async def take(self, note: Note) -> None:
        """Takes a note of the supervisor about them."""
        match note.kind:
            case "status":
                self._latest[note.worker] = note.value()
            case "ended":
                self._ended = note.value()
            case "talk":
                self.peers.heard(bytes(note.body))  # type: ignore[arg-type]
            case "joined":
                await self.peers.joined(note.worker, self._send_to(note.worker))
            case "left":
                self._latest.pop(note.worker, None)
                self.peers.left(note.worker)

    def _send_to(self, worker: int) -> Send:
        async def send(line: bytes) -> None:
            self._wire.pass_on(Note("talk", worker, msgspec.Raw(line.rstrip(b"\n"))))

        return send


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
    # SIGINT goes to the whole terminal group: the supervisor decides
    with StopSignals(loop, stop.set, ignored=[signal.SIGINT]):
        try:
            await _serve(wire, notes, job, settings, stop)
        except TidegateError as e:
            wire.say("failed", str(e))
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
    registry, number = Registry.installed(), job["worker"]
    files, since_ns = [Path(p) for p in job["paths"]], time.time_ns()
    loaded = load_all(all_paths(files, settings), registry)
    workers, first = OtherWorkers(wire), number == 0
    supervised = Supervised(os.getppid(), job["began"])
    gateway = Gateway(
        *(loaded.config, settings, registry),
        worker=number,
        others=workers.statuses,
        ended=workers.ended,
        supervised=supervised,
    )
    gateway.peers = workers.peers
    gateway.config_read_ns = since_ns
    started = anyio.Event()

    def spread() -> None:
        if first:
            wire.say("reload")

    reloader = Reloader(gateway, files, settings, registry, spread, loaded=loaded, since_ns=since_ns)

    async def report() -> None:
        await started.wait()
        spare_collector()
        said = {"status": gateway.status(), "ingress": gateway.ingress, "addresses": gateway.addresses}
        wire.say("started", said if first else None)
        while True:
            wire.say("status", gateway.own_status())
            await anyio.sleep(STATUS_EVERY_S)

    async def listen() -> None:
        listener = PeerServer(gateway.services, partial(_tell, wire))
        async with anyio.create_task_group() as tasks:
            async for note in notes:
                match note.kind:
                    case "reload":
                        reloader.ask()
                    case "fetch":
                        tasks.start_soon(_fetch, gateway, started)
                    case _ if first:
                        await workers.take(note)
                    case "talk":
                        listener.hear(bytes(note.body) + b"\n", tasks)  # type: ignore[arg-type]
            stop.set()  # the supervisor died

    async def follow() -> None:
        await started.wait()
        await reloader.answer()

    tasks = following(gateway, reloader, settings, spread, started) if first else [follow]
    await live(gateway, stop, started, report, listen, *tasks)


async def _fetch(gateway: Gateway, started: anyio.Event) -> None:
    await started.wait()
    await gateway.fetch()


def _tell(wire: Wire, line: bytes) -> None:
    wire.pass_on(Note("talk", 0, msgspec.Raw(line)))


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
    raise_limit()
    sys.exit(anyio.run(_work, sock, backend_options={"use_uvloop": has_uvloop()}))


if __name__ == "__main__":
    main()
