"""A gateway of several workers: the real supervisor and the real workers, each in a loop of its own, on one disk.

Simulated are the processes themselves, the wires between them, and signals. All processes share this one; what a dead
one has open of SQLite is dead too (`Disk.dead`), while the others go on.
"""

from __future__ import annotations

import asyncio
import gc as real_gc
import io
import signal
import socket as real_socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import anyio
from gateway_workers import supervisor, worker

from gateway_core.config.config_read import read_config
from gateway_core.contract.errors import TidegateError
from gateway_core.contract.settings import Settings
from gateway_core.pipeline.broker import Trigger
from gateway_core.runtime.gateway import Gateway

from . import threads
from .gateways import Process, SimulatedClock, unheard
from .loop import Loop
from .network import Endpoint
from .replaced import look, unlock_all
from .sqlite_vfs import shim
from .transports import Machine

if TYPE_CHECKING:
    from .plan import Rewind
    from .world import World

WIRE_S = 0.0001
BEGINS_S = 0.2


class End(asyncio.Transport):
    """One end of a wire."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.other: End
        self._early: deque[bytes] = deque()
        self._loop: Any = None
        self._protocol: Any = None
        self._closed = self._ended = False

    def __enter__(self) -> End:
        return self

    def __exit__(self, *error: object) -> None:
        return

    def fileno(self) -> int:
        """As of a socket: nobody uses it."""
        return 0

    def opened(self, loop: Any, protocol: Any) -> End:
        """A process has taken it over."""
        self._loop, self._protocol = loop, protocol
        loop.call_soon(protocol.connection_made, self)
        while self._early:
            loop.call_soon(protocol.data_received, self._early.popleft())
        if self._ended:
            loop.call_soon(self._end)
        return self

    def write(self, data: Any) -> None:
        if not self._closed and not self.other._closed:
            self._world.scheduler.after(WIRE_S, self.other.arrived, bytes(data))

    def arrived(self, data: bytes) -> None:
        """From the other end; empty at its end."""
        if self._closed or (self._loop is not None and self._loop.dead):
            return
        self._ended = self._ended or not data
        if self._loop is None:
            self._early.extend([data] if data else [])
        elif data:
            self._loop.call_soon(self._protocol.data_received, data)
        else:
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        self._protocol.eof_received()
        self.close()

    def close(self) -> None:
        if self._loop is not None:  # not only another process's copy of it
            self.cut()

    def cut(self) -> None:
        """Its process is gone, or has closed it."""
        if not self._closed:
            self._closed = True
            self._world.scheduler.after(WIRE_S, self.other.arrived, b"")
            if self._loop is not None and not self._loop.dead:
                self._loop.call_soon(self._protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self._closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """It never has to."""

    def resume_reading(self) -> None:
        """It never has to."""


class Signals:
    """`gateway_core.runtime.stopping.StopSignals`."""

    def __init__(self, loop: Loop, first: Callable[[], None], *second: Any, supervised: bool = False) -> None:
        self._loop = loop
        self._first = first

    def __enter__(self) -> Signals:
        self._loop.add_signal_handler(signal.SIGTERM, self._first)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.remove_signal_handler(signal.SIGTERM)


class WorkerProcess:
    """A worker, and `anyio.abc.Process` for the supervisor."""

    def __init__(self, group: Group, number: int, end: End) -> None:
        self._group = group
        self._world = world = group.world
        self.number = number
        self.pid = 1000 + number
        self.returncode: int | None = None
        self.gateway: Gateway | None = None
        self.end = end
        self.machine = Machine(world.network, group.generation)
        self.machine.short = world.out_of_descriptors
        self.loop = Loop(world.scheduler, self.machine, world.broken, world.thread_delay)
        self._main: Any = None
        self._gone = group.loop.create_future()
        group.running_workers[number] = self
        world.scheduler.after(BEGINS_S, self._begin)

    def _begin(self) -> None:
        if self.returncode is None:
            self._main = self.loop.create_task(self._run())

    async def _run(self) -> None:
        code = 1
        try:
            code = await worker._work(self.end)  # type: ignore[arg-type]
        except BaseException as e:
            if self.loop.dead:
                raise
            self._world.broken(f"worker {self.number} ended: {type(e).__name__}: {e}")
        self.loop.call_soon(self.over, code)

    async def wait(self) -> int:
        """As of a process."""
        await asyncio.shield(self._gone)
        return self.returncode or 0

    def send_signal(self, number: int) -> None:
        """As of a process."""
        if number == signal.SIGKILL or (number == signal.SIGTERM and number not in self.loop.signals):
            self._world.scheduler.after(0.0, self.over, -number)
        elif number in self.loop.signals:
            self.loop.signals[number]()

    def over(self, code: int) -> None:
        """It has ended, or was killed; all it has open is dead."""
        if self.returncode is not None:
            return
        self.returncode = code
        disk = self._world.disk
        disk.dead.add(self.loop.threads)
        shim().kill(disk, self.loop.threads)
        threads.Threads.current = self.loop.threads
        with unheard():
            self.loop.kill()
            self.gateway = self._main = None
            self.machine.end()
            unlock_all(self._world.descriptors, self.loop.threads)
            real_gc.collect()  # its connections to SQLite close, and their locks with them
        self._group.running_workers.pop(self.number, None)
        self.end.cut()
        if not self._group.loop.dead and not self._gone.done():
            self._gone.set_result(None)


class Group(Process):
    """The processes of one gateway with several workers; its own loop is the supervisor's."""

    def __init__(self, world: World, generation: int) -> None:
        super().__init__(world, generation)
        self.world = world
        self._supervisors = self.loop
        self.running_workers: dict[int, WorkerProcess] = {}
        self.pair: list[End] = []

    def begin(self) -> None:
        self._world.scheduler.process = self
        self._main = self.loop.create_task(self._supervise())

    async def _supervise(self) -> None:
        world = self._world
        settings = Settings(
            data_dir=world.data_dir,
            admin="off",
            reload="signal",
            workers=world.plan.configs[world.config].workers,
            drain_timeout_s=world.plan.configs[world.config].drain_timeout_s,
        )
        error = ""
        try:
            read = self.read(settings)
            await supervisor.Supervisor(read, lambda started: self._told()).run()
        except TidegateError as e:
            error = f"{type(e).__name__}: {e}"
        except BaseException as e:
            if self.loop.dead:
                raise
            error = f"{type(e).__name__}: {e}"
            world.broken(f"the supervisor ended: {error}")
        self.running = False
        self.loop.call_soon(self._ended, error)

    def read(self, settings: Settings) -> Any:
        """The config as it is in the file now."""
        world, text = self._world, self._world.file.read_text()
        if text not in world.configs:
            world.configs[text] = read_config([world.file], settings, world.registry)
        return replace(world.configs[text], settings=settings, since_ns=world.now_ns())

    def _told(self) -> None:
        self.running = True
        self._world.started(self)

    def _ended(self, error: str) -> None:
        for one in list(self.running_workers.values()):
            one.over(-signal.SIGKILL)
        super()._ended(error)

    # -- scheduler.Process ------------------------------------------------------------------------------------------

    def _loops(self) -> Iterator[Loop]:
        yield self._supervisors
        for one in self.running_workers.values():
            yield one.loop

    def next_at(self) -> float:
        """See `scheduler.Process`."""
        return min(loop.next_at() for loop in self._loops())

    def step(self) -> None:
        """See `scheduler.Process`."""
        loop = min(self._loops(), key=lambda loop: loop.next_at())
        threads.Threads.current = loop.threads
        loop.step()

    @property
    def current(self) -> WorkerProcess | None:
        """The worker whose code runs."""
        running = asyncio._get_running_loop()
        return next((one for one in self.running_workers.values() if one.loop is running), None)

    @property
    def inside(self) -> bool:
        return asyncio._get_running_loop() is not None

    # -- operators --------------------------------------------------------------------------------------------------

    def stop(self, then: Callable[[], None] | None = None) -> None:
        self._then = then or self._then
        if signal.SIGTERM in self.loop.signals:
            self.running = False
            self.loop.signals[signal.SIGTERM]()

    def reload(self) -> None:
        if signal.SIGHUP in self.loop.signals:
            self.loop.signals[signal.SIGHUP]()

    def pause(self, names: tuple[str, ...]) -> None:
        """Not in plans of several workers."""

    def rewind(self, number: int, wanted: Rewind) -> None:
        """The first worker is asked."""
        first = self.running_workers.get(0)
        if first is not None and not first.loop.dead:
            self._ask_for_rewind(first.loop, first.gateway, number, wanted)

    def kill_worker(self, number: int) -> bool:
        """kill -9 of one. False if it does not run."""
        one = self.running_workers.get(number)
        if one is None:
            return False
        one.over(-signal.SIGKILL)
        return True

    # -- its state --------------------------------------------------------------------------------------------------

    def report(self) -> None:
        """The status of the whole is not checked."""

    def resting(self) -> str:
        workers = self._world.plan.configs[self._world.config].workers
        if not self.running or len(self.running_workers) < workers:
            return "workers start"
        wanted = self.read(Settings()).loaded.config
        for one in self.running_workers.values():
            gateway = one.gateway
            if gateway is None or not gateway.running:
                return f"worker {one.number} starts"
            if gateway._changing.statistics().locked:
                return f"worker {one.number} reloads"
            if (gateway.config.brokers, gateway.config.triggers) != (wanted.brokers, wanted.triggers):
                return f"worker {one.number} runs another config than is in the file"
            for trigger in gateway._built.triggers.values():
                if isinstance(trigger, Trigger):
                    subscription = trigger.subscription
                    if subscription.held or subscription.feed.lag():
                        held = f"{subscription.held} held, lag {subscription.feed.lag()}"
                        return f"worker {one.number}: {trigger.name}: {held}"
        return self._world.queues.resting(self._world.plan.configs[self._world.config])

    def die(self) -> None:
        for loop in self._loops():
            loop.dead = True

    # -- its end ----------------------------------------------------------------------------------------------------

    def kill(self, *, dark: bool = False) -> None:
        super().kill(dark=dark)
        for one in list(self.running_workers.values()):
            one.over(-signal.SIGKILL)

    def dispose(self) -> None:
        super().dispose()
        self.running_workers.clear()


class Front:
    """The network of a machine with several workers: the code of each finds its own."""

    def __init__(self, group: Group, random: Random) -> None:
        self._group = group
        self._random = random

    def dial(self, port: int, endpoint: Endpoint, name: str) -> None:
        """A connection goes to any worker that listens."""
        workers = [one for one in self._group.running_workers.values() if port in one.machine.listening]
        machine = self._random.choice(workers).machine if workers else self._group.machine
        machine.dial(port, endpoint, name)


class _Like:
    """A module with other names in it."""

    def __init__(self, module: Any, **changes: Any) -> None:
        self.__dict__.update(changes, _module=module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


@contextmanager
def several(world: World) -> Iterator[None]:
    """Inside, the modules of the plugin `workers` have what is simulated of a process."""
    if not any(config.workers > 1 for config in world.plan.configs):
        yield
        return

    def group() -> Group:
        assert isinstance(world.gateway, Group)
        return world.gateway

    async def open_process(command: list[str], **options: Any) -> WorkerProcess:
        started = [w for w in range(64) if w not in group().running_workers]
        return WorkerProcess(group(), started[0], group().pair.pop())

    def socketpair() -> tuple[End, End]:
        ends = End(world), End(world)
        ends[0].other, ends[1].other = ends[1], ends[0]
        group().pair = [ends[1]]
        return ends

    def made(config: Any, settings: Settings, registry: Any, role: Any = None, read: Any = None) -> Gateway:
        one = group().current
        assert one is not None
        one.gateway = Gateway(config, settings, registry, SimulatedClock(world, one.loop), role=role, read=read)
        look()
        return one.gateway

    async def serve(gateway: Gateway, stop: anyio.Event, started: Callable[[], None], *beside: Any) -> None:
        begun = anyio.Event()

        async def follow() -> None:
            await begun.wait()
            started()

        await gateway.run(stop, begun, follow, *beside)

    def stacks(**options: Any) -> io.BytesIO:
        file = io.BytesIO()
        file.fileno = lambda: 0  # type: ignore[method-assign]
        return file

    with ExitStack() as stack:
        stack.enter_context(
            patch.multiple(
                supervisor,
                anyio=_Like(anyio, open_process=open_process),
                socket=_Like(real_socket, socketpair=socketpair),
                tempfile=SimpleNamespace(TemporaryFile=stacks),
                StopSignals=Signals,
                _is_stopped=lambda pid: False,
            )
        )
        stack.enter_context(
            patch.multiple(
                worker,
                configure=lambda settings: None,
                StopSignals=Signals,
                gc=SimpleNamespace(set_threshold=lambda *counts: None),
                read_config=lambda paths, settings, registry: group().read(settings),
                Registry=SimpleNamespace(installed=lambda: world.registry),
                Gateway=made,
                serve=serve,
            )
        )
        yield
