"""An event loop whose time, threads and network are simulated.

It runs one step at a time, when the world's scheduler says so (`scheduler.Process`): no step takes time, but a step
that follows at once is `STEP_S` later, so that code which turns in circles does not stop the time. A process that is
frozen, or dead, is not asked for steps any more. What is in a dead one is never run.
"""

from __future__ import annotations

import asyncio
import heapq
import socket as sockets
from asyncio import events
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .scheduler import Scheduler
from .threads import Threads
from .transports import secured

if TYPE_CHECKING:
    from .transports import Machine

STEP_S = 20e-6


class Loop(asyncio.BaseEventLoop):
    """`unexpected` is called with what asyncio would log: exceptions that nobody takes."""

    _ready: Any
    _scheduled: list[asyncio.TimerHandle]

    def __init__(
        self,
        scheduler: Scheduler,
        machine: Machine,
        unexpected: Callable[[str], None],
        delay: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.scheduler = scheduler
        super().__init__()
        self.dead = False
        self.frozen_until = 0.0
        self.signals: dict[int, Callable[[], Any]] = {}
        self.threads = Threads(self, delay)
        self._machine = machine
        self._unexpected = unexpected
        self._free_at = 0.0
        self._thread_id = None

    def time(self) -> float:
        return self.scheduler.now

    def is_running(self) -> bool:
        return events._get_running_loop() is self

    # -- steps ------------------------------------------------------------------------------------------------------

    def next_at(self) -> float:
        """See `scheduler.Process`."""
        if self.dead:
            return float("inf")
        if self._ready:
            return max(self._free_at, self.frozen_until)
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:  # type: ignore[attr-defined]
            heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]
        return max(scheduled[0]._when, self._free_at, self.frozen_until) if scheduled else float("inf")  # type: ignore[attr-defined]

    def step(self) -> None:
        """See `scheduler.Process`."""
        now, ready, scheduled = self.scheduler.now, self._ready, self._scheduled
        while scheduled and scheduled[0]._when <= now:  # type: ignore[attr-defined]
            handle = heapq.heappop(scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            ready.append(handle)
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                if self.dead:
                    return
        finally:
            events._set_running_loop(before)
        self._free_at = now + STEP_S

    def kill(self) -> None:
        """Nothing of it runs any more."""
        self.dead = self._closed = True
        self._ready.clear()
        self._scheduled.clear()
        self.threads.kill()

    # -- what asyncio's loop would ask the machine for ----------------------------------------------------------------

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.dead:
            error = context.get("exception")
            self._unexpected(f"{context.get('message')}: {error!r}")

    def _write_to_self(self) -> None:
        return

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        return  # cancelled timers are dropped when they come up

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        if self.dead:
            raise RuntimeError("Event loop is closed")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        return self.threads.run_in_executor(executor, func, *args)

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:  # type: ignore[override]
        self.signals[sig] = lambda: self.call_soon(callback, *args)

    def remove_signal_handler(self, sig: int) -> bool:
        return self.signals.pop(sig, None) is not None

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:  # type: ignore[override]
        fd.add_reader(self, callback, args)

    def remove_reader(self, fd: Any) -> bool:
        return bool(fd.remove_reader())

    def remove_writer(self, fd: Any) -> bool:  # type: ignore[override]
        return False

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:  # type: ignore[override]
        return [(sockets.AF_INET, sockets.SOCK_STREAM, 6, "", (host, port))]

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:  # type: ignore[override]
        tls = {name: value for name, value in options.items() if name.startswith("ssl") or name == "server_hostname"}
        return await self._machine.connect(self, protocol_factory, host, port, **tls)

    async def create_unix_connection(self, protocol_factory: Any, path: Any = None, **options: Any) -> Any:  # type: ignore[override]
        protocol = protocol_factory()
        return options["sock"].opened(self, protocol), protocol

    async def connect_accepted_socket(self, protocol_factory: Any, sock: Any, **options: Any) -> Any:  # type: ignore[override]
        protocol = protocol_factory()
        if options.get("ssl") is not None:
            return await secured(self, sock, protocol, server_side=True, **options), protocol
        return sock.opened(self, protocol), protocol

    async def shutdown_default_executor(self, timeout: Any = None) -> None:
        return
